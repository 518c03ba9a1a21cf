//! How well the averaged network forecasts the validation span.

use std::collections::BTreeMap;

use crate::device::Device;
use crate::error::Result;
use crate::field::Layout;
use crate::preprocess::{Batch, EvaluationWindows};
use crate::train::band::Band;
use crate::train::interrupt::Interrupt;
use crate::train::plan::LossPlan;
use crate::train::ranks::Ranks;
use crate::train::weights::{Weights, lead_weights};
use crate::train::workspace::Workspace;

/// What a validation found.
#[derive(Debug, Clone, PartialEq)]
pub struct Validation {
    /// Weighted mean over the leads.
    pub loss: f64,
    pub lead_loss: Vec<f64>,
    /// Mean of `rmse` over variables and leads.
    pub score: f64,
    /// Root mean square error by variable and lead, in standard deviations of the training data.
    pub rmse: BTreeMap<String, Vec<f64>>,
    /// Windows that were forecast.
    pub samples: usize,
}

/// Sums over windows, in their order: the same bits whatever ran before.
struct Sums {
    leads: usize,
    channels: usize,
    /// `[lead, channel]`: weighted squares of the error.
    squares: Vec<f64>,
    /// `[lead, channel]`: weighted losses.
    losses: Vec<f64>,
    samples: usize,
}

/// Forecasts every window, each rank its share, and compares; `None` when somebody asked to stop in between.
pub(super) fn validate(
    workspace: &Workspace<f32>,
    device: &mut dyn Device<f32>,
    windows: &mut EvaluationWindows,
    scoring: &Scoring<'_>,
    interrupt: &Interrupt,
    ranks: &mut Ranks<'_, f32>,
) -> Result<Option<Validation>> {
    let mut sums = Sums::new(scoring.leads, scoring.layout.channels());
    windows.rewind();
    // Forecasts that take several ranks are made equally often by all.
    let together = workspace.forecasts_together() || !ranks.part().is_alone();
    for _ in 0..windows.most_batches() {
        let stops = interrupt.is_requested();
        let stops = if together { ranks.any(stops)? } else { stops };
        if stops {
            break;
        }
        if together {
            ranks.depend();
        }
        let batch = windows.next().transpose()?.map(|batch| scoring.band.batch(batch));
        // Who has no window left still has weights that others need.
        if batch.is_some() || workspace.forecasts_together() {
            forecast(workspace, ranks, device, batch.as_ref(), scoring, &mut sums);
        }
        device.finish()?;
    }
    if ranks.any(interrupt.is_requested())? {
        return Ok(None);
    }
    sums.add_up(scoring, ranks)?;
    Ok(Some(sums.finish(scoring)))
}

/// How errors are weighed.
pub(super) struct Scoring<'a> {
    pub leads: usize,
    pub layout: &'a Layout,
    pub plan: &'a LossPlan,
    /// Of the whole grid.
    pub weights: &'a Weights,
    /// What this rank sees of it.
    pub band: &'a Band,
}

/// Forecasts the windows of a batch, adding their errors; without one, whatever is there, for the sake of the others.
fn forecast(
    workspace: &Workspace<f32>,
    ranks: &mut Ranks<'_, f32>,
    device: &mut dyn Device<f32>,
    batch: Option<&Batch>,
    scoring: &Scoring<'_>,
    sums: &mut Sums,
) {
    let network = &workspace.averaged;
    let slots = network.slots();
    let frames = network.architecture().input_frames;
    let field = slots.predictions.len();
    let forcing = network.step_forcings().len();
    if let Some(batch) = batch {
        device.upload(slots.frames, &batch.frames[..frames * field]);
        device.upload(slots.forcings, &batch.forcings[..frames * forcing]);
    }
    workspace.forecast(device, ranks, false);
    let mut predictions = vec![0.0; field];
    for lead in 0..scoring.leads {
        if let Some(batch) = batch {
            let step = frames - 1 + lead;
            let forcings = &batch.forcings[step * forcing..(step + 1) * forcing];
            device.upload(network.step_forcings(), forcings);
        }
        workspace.forecast(device, ranks, true);
        if let Some(batch) = batch {
            device.download(slots.predictions, &mut predictions);
            let truth = &batch.frames[(frames + lead) * field..(frames + lead + 1) * field];
            sums.add(lead, &predictions, truth, batch.samples, scoring);
        }
    }
    sums.samples += batch.map_or(0, |batch| batch.samples);
}

impl Sums {
    fn new(leads: usize, channels: usize) -> Self {
        let sums = vec![0.0; leads * channels];
        Self { leads, channels, squares: sums.clone(), losses: sums, samples: 0 }
    }

    /// Adds the first `samples` windows of `[batch, lat, lon, channel]`, of the band, at one lead.
    fn add(
        &mut self,
        lead: usize,
        predictions: &[f32],
        truth: &[f32],
        samples: usize,
        scoring: &Scoring<'_>,
    ) {
        let (_, columns, channels) = scoring.layout.shape();
        let rows = &scoring.band.rows;
        let each = rows.len() * columns * channels;
        for sample in 0..samples {
            for (own_row, row) in rows.clone().enumerate() {
                for column in 0..columns {
                    for channel in 0..channels {
                        let weight = scoring.weights.point(scoring.layout, row, column, channel);
                        if weight == 0.0 {
                            continue; // masked: there is no truth
                        }
                        let index = sample * each + (own_row * columns + column) * channels + channel;
                        let error = f64::from(predictions[index]) - f64::from(truth[index]);
                        let sum = lead * self.channels + channel;
                        self.squares[sum] += weight * error * error;
                        self.losses[sum] += weight * scoring.plan.kind.of(error);
                    }
                }
            }
        }
    }

    /// Adds what the other ranks have found.
    fn add_up(&mut self, scoring: &Scoring<'_>, ranks: &mut Ranks<'_, f32>) -> Result<()> {
        // Who sees the same windows counts them once.
        let samples = if scoring.band.rows.start == 0 { self.samples as f64 } else { 0.0 };
        let mut all = [&self.squares[..], &self.losses[..], &[samples]].concat();
        all.iter_mut().for_each(|sum| *sum = ranks.once(*sum));
        ranks.total(&mut all)?;
        let (squares, rest) = all.split_at(self.squares.len());
        let (losses, samples) = rest.split_at(self.losses.len());
        self.squares.copy_from_slice(squares);
        self.losses.copy_from_slice(losses);
        self.samples = samples[0] as usize;
        Ok(())
    }

    fn finish(self, scoring: &Scoring<'_>) -> Validation {
        let samples = self.samples.max(1) as f64;
        let channel_sums: Vec<f64> =
            (0..self.channels).map(|channel| scoring.weights.channel_sum(scoring.layout, channel)).collect();
        let lead_loss: Vec<f64> = self
            .losses
            .chunks(self.channels)
            .map(|losses| {
                let weighted = losses.iter().zip(&scoring.weights.channels).map(|(l, w)| l * f64::from(*w));
                weighted.sum::<f64>() * scoring.weights.scale / samples
            })
            .collect();
        let loss = lead_loss.iter().zip(lead_weights(scoring.plan, self.leads)).map(|(l, w)| l * w).sum();
        let mut rmse = BTreeMap::new();
        let mut all = Vec::new();
        for (channel, quantity) in scoring.layout.quantities.iter().enumerate() {
            if channel_sums[channel] == 0.0 {
                continue; // nothing of it exists anywhere
            }
            let of = |lead: usize| {
                (self.squares[lead * self.channels + channel] / (samples * channel_sums[channel])).sqrt()
            };
            let leads: Vec<f64> = (0..self.leads).map(of).collect();
            all.extend(&leads);
            rmse.insert(quantity.to_string(), leads);
        }
        let score = all.iter().sum::<f64>() / all.len().max(1) as f64;
        Validation { loss, lead_loss, score, rmse, samples: self.samples }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Grid;
    use crate::train::plan::LossKind;
    use crate::variable::Quantity;

    #[test]
    fn the_score_is_the_mean_of_the_errors_by_variable_and_lead() {
        let layout = Layout {
            grid: Grid::new(vec![0.0, 60.0], vec![0.0]).unwrap(),
            quantities: vec![Quantity::parse("msl"), Quantity::parse("z500")],
        };
        let plan = LossPlan {
            kind: LossKind::Squared,
            latitude_weights: false,
            variables: BTreeMap::new(),
            leads: vec![],
        };
        let weights = Weights::new(&plan, &layout, None).unwrap();
        let band = Band::new(0..2, &layout, 0);
        let scoring = Scoring { leads: 2, layout: &layout, plan: &plan, weights: &weights, band: &band };
        let mut sums = Sums::new(2, 2);
        // Two windows count, the third repeats; errors of msl 3 and 1, of z500 2 everywhere.
        let truth = vec![0.0; 3 * 4];
        let predictions = [3.0, 2.0, 1.0, 2.0, 3.0, -2.0, 1.0, -2.0, 99.0, 99.0, 99.0, 99.0];
        for lead in 0..2 {
            sums.add(lead, &predictions, &truth, 2, &scoring);
        }
        sums.samples = 2;
        let found = sums.finish(&scoring);
        assert_eq!(found.rmse["msl"], vec![5.0_f64.sqrt(); 2]);
        assert_eq!(found.rmse["z500"], vec![2.0; 2]);
        assert!((found.score - (5.0_f64.sqrt() + 2.0) / 2.0).abs() < 1e-12);
        assert!((found.loss - 4.5).abs() < 1e-12, "mean of 5 and 4");
    }
}
