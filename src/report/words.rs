//! What the scores are called and what they mean.

use crate::report::names::capitalised;
use crate::variable::Quantity;

/// A quantity of the scores: `500 hPa geopotential`, `500 hPa wind`, or the label itself.
pub fn scored_name(label: &str) -> String {
    if let Some(height) = label.strip_prefix("wind")
        && !height.is_empty()
        && height.chars().all(|c| c.is_ascii_digit())
    {
        return if height == "10" { "10 metre wind".into() } else { format!("{height} hPa wind") };
    }
    let quantity = Quantity::parse(label);
    match (quantity.variable(), quantity.level) {
        (Some(variable), Some(level)) => format!("{level} hPa {}", variable.long_name),
        (Some(variable), None) => capitalised(variable.long_name),
        (None, _) => label.to_string(),
    }
}

pub fn metric_name(metric: &str) -> &str {
    match metric {
        "rmse" => "Root mean square error",
        "mae" => "Mean absolute error",
        "bias" => "Bias",
        "acc" => "Anomaly correlation, mean of the days",
        "acc_pooled" => "Anomaly correlation, pooled",
        "s1" => "S1 score of the gradients",
        "vector_rmse" => "Root mean square error of the wind vector",
        other => other,
    }
}

/// A sentence for each score: (name, meaning).
pub const MEANINGS: [(&str, &str); 10] = [
    (
        "Root mean square error (RMSE)",
        "The typical size of an error, large ones counting more; the square root is taken after averaging over area and \
         time. 0 is perfect. A forecast that knows only the climate ends at the level of climatology.",
    ),
    (
        "Mean absolute error (MAE)",
        "The average size of an error; less swayed by a few bad days than the RMSE.",
    ),
    ("Bias", "The average error with its sign: a model that is too warm has a positive one."),
    (
        "Anomaly correlation (ACC)",
        "How well the pattern of departures from the climatology is forecast, whatever its strength: 1 is perfect, 0 no \
         better than chance; above 0.6 a chart is usually held to be useful. The pooled form divides time means instead of \
         averaging the correlations of single days.",
    ),
    (
        "S1 score",
        "The error of the horizontal gradients in percent of the larger gradient, which is what makes winds and fronts: 0 \
         is perfect, 70 is about useless on a surface chart.",
    ),
    (
        "RMSE of the wind vector",
        "The typical length of the difference between the forecast and the true wind arrow.",
    ),
    (
        "Skill",
        "1 minus the ratio of the model's mean square error to the baseline's: 1 is perfect, 0 is no better than the \
         baseline, below 0 is worse.",
    ),
    (
        "95 % interval",
        "From a moving-block bootstrap, which draws blocks of consecutive days again and again because one day's weather \
         is like the next. If the interval of a difference leaves out zero, luck in the choice of days is an unlikely \
         reason for it.",
    ),
    (
        "Weighted and unweighted",
        "On a latitude-longitude grid points crowd towards the poles. Area-weighted scores count every square kilometre \
         alike, unweighted ones every grid point.",
    ),
    (
        "Zonal energy spectrum",
        "How much variation the fields have at each wavelength along circles of latitude. A forecast that falls below the \
         truth at short wavelengths has blurred its weather, which lowers the RMSE and hides fronts.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_become_words_and_strangers_stay() {
        assert_eq!(scored_name("z500"), "500 hPa geopotential");
        assert_eq!(scored_name("wind500"), "500 hPa wind");
        assert_eq!(scored_name("wind10"), "10 metre wind");
        assert_eq!(scored_name("windows"), "windows");
        assert_eq!(scored_name("msl"), "Mean sea level pressure");
        assert_eq!(metric_name("rmse"), "Root mean square error");
    }
}
