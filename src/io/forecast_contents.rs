//! What a forecast says of itself and how its numbers lie, in whatever format it is written: CF-1.11.

use super::forecast_file::ForecastHead;
use super::forecast_variables::FileVariable;
use super::info::Linear;
use crate::field::State;
use crate::grid::{Grid, Orientation};
use crate::time::{LeadTime, ValidTime, valid_time};
use crate::variable::Behaviour;

/// A variable that says where the others are.
#[derive(Debug, PartialEq)]
pub(super) struct Coordinate {
    pub name: String,
    /// None: a single number.
    pub dimensions: Vec<String>,
    pub attributes: Vec<(&'static str, String)>,
    pub values: Vec<f64>,
}

impl Coordinate {
    fn new(name: &str, dimensions: &[&str], attributes: &[(&'static str, &str)], values: Vec<f64>) -> Self {
        Self {
            name: name.to_owned(),
            dimensions: dimensions.iter().map(|&dimension| dimension.to_owned()).collect(),
            attributes: attributes.iter().map(|&(name, text)| (name, text.to_owned())).collect(),
            values,
        }
    }
}

/// Of the whole.
pub(super) fn attributes(head: &ForecastHead) -> Vec<(&'static str, String)> {
    let now = chrono::Utc::now().format("%Y-%m-%dT%H:%M:%SZ");
    vec![
        ("Conventions", "CF-1.11".into()),
        ("title", format!("Forecast from {} by {}", head.init, head.model)),
        ("source", format!("wxsim {}, {}, from {}", env!("CARGO_PKG_VERSION"), head.model, head.origin)),
        ("history", format!("{now}: {}", head.history)),
        ("wxsim_model", head.model.clone()),
        ("wxsim_origin", head.origin.clone()),
    ]
}

/// Names and lengths.
pub(super) fn dimensions(head: &ForecastHead, variables: &[FileVariable]) -> Vec<(String, usize)> {
    let grid = &head.layout.grid;
    let mut all = vec![
        ("time".to_owned(), head.steps + 1),
        ("latitude".to_owned(), grid.rows()),
        ("longitude".to_owned(), grid.columns()),
    ];
    if holds_sums(head) {
        all.push(("bnds".to_owned(), 2));
    }
    for variable in variables {
        if let Some(dimension) = &variable.level_dimension
            && !all.iter().any(|(name, _)| name == dimension)
        {
            all.push((dimension.clone(), variable.levels.len()));
        }
    }
    all
}

fn holds_sums(head: &ForecastHead) -> bool {
    head.layout.quantities.iter().any(|quantity| quantity.behaviour() == Behaviour::Accumulated)
}

/// Times, grid and levels.
pub(super) fn coordinates(head: &ForecastHead, variables: &[FileVariable]) -> Vec<Coordinate> {
    let mut all = of_times(head);
    all.extend(of_grid(&head.layout.grid, head.orientation));
    for variable in variables {
        if let Some(dimension) = &variable.level_dimension
            && !all.iter().any(|coordinate| coordinate.name == *dimension)
        {
            let attributes = [
                ("standard_name", "air_pressure"),
                ("long_name", "pressure level"),
                ("units", "hPa"),
                ("positive", "down"),
                ("axis", "Z"),
            ];
            all.push(Coordinate::new(dimension, &[dimension], &attributes, variable.levels.clone()));
        }
    }
    all
}

/// In the coarsest unit that writes them as whole numbers.
fn of_times(head: &ForecastHead) -> Vec<Coordinate> {
    let whole_hours = head.init.0.seconds % 3600 == 0 && head.step.seconds % 3600 == 0;
    let (unit, seconds) = if whole_hours { ("hours", 3600) } else { ("seconds", 1) };
    let units = format!("{unit} since 1970-01-01 00:00:00");
    let number = |time: ValidTime| time.seconds as f64 / f64::from(seconds);
    let calendar = head.init.0.calendar.cf_name();
    let leads: Vec<LeadTime> = (0..=head.steps).map(|n| head.step.times(n)).collect();
    let times: Vec<f64> = leads.iter().map(|&lead| number(valid_time(head.init, lead))).collect();

    let mut of_valid = vec![
        ("standard_name", "time"),
        ("long_name", "valid time"),
        ("units", &*units),
        ("calendar", calendar),
        ("axis", "T"),
    ];
    if holds_sums(head) {
        of_valid.push(("bounds", "time_bnds"));
    }
    let of_lead = [("standard_name", "forecast_period"), ("long_name", "lead time"), ("units", "hours")];
    let of_init = [
        ("standard_name", "forecast_reference_time"),
        ("units", &*units),
        ("long_name", "initial time of the forecast"),
        ("calendar", calendar),
    ];
    let hours = leads.iter().map(|lead| lead.hours()).collect();
    let mut all = vec![
        Coordinate::new("time", &["time"], &of_valid, times.clone()),
        Coordinate::new("lead_time", &["time"], &of_lead, hours),
        Coordinate::new("forecast_reference_time", &[], &of_init, vec![number(head.init.0)]),
    ];
    if holds_sums(head) {
        // Sums are over the step that ends at the valid time.
        let begin =
            |lead: LeadTime| valid_time(head.init, LeadTime { seconds: lead.seconds - head.step.seconds });
        let bounds = leads.iter().zip(&times).flat_map(|(&lead, &end)| [number(begin(lead)), end]).collect();
        all.push(Coordinate::new("time_bnds", &["time", "bnds"], &[], bounds));
    }
    all
}

pub(super) fn of_grid(grid: &Grid, orientation: Orientation) -> [Coordinate; 2] {
    let mut rows = grid.latitude.clone();
    if orientation.latitude_descending {
        rows.reverse();
    }
    let of = |name: &'static str, units, axis| {
        [("standard_name", name), ("long_name", name), ("units", units), ("axis", axis)]
    };
    let latitude = of("latitude", "degrees_north", "Y");
    let longitude = of("longitude", "degrees_east", "X");
    [
        Coordinate::new("latitude", &["latitude"], &latitude, rows),
        Coordinate::new("longitude", &["longitude"], &longitude, file_longitudes(grid, orientation)),
    ]
}

/// Longitudes in the file's order and sign, and increasing as CF demands of a coordinate.
fn file_longitudes(grid: &Grid, orientation: Orientation) -> Vec<f64> {
    let n = grid.columns();
    let mut columns = Vec::with_capacity(n);
    for column in 0..n {
        let inside = grid.longitude[(column + orientation.longitude_shift) % n];
        let written = if orientation.longitude_signed {
            (inside + 180.0).rem_euclid(360.0) - 180.0
        } else {
            inside.rem_euclid(360.0)
        };
        let unwrapped = match columns.last() {
            Some(&before) if written < before => written + 360.0,
            _ => written,
        };
        columns.push(unwrapped);
    }
    columns
}

/// What a variable is.
pub(super) fn of_variable(variable: &FileVariable) -> Vec<(&'static str, &str)> {
    let mut all = Vec::new();
    if let Some(name) = variable.standard_name {
        all.push(("standard_name", name));
    }
    all.extend([("long_name", &*variable.long_name), ("units", &*variable.file_units)]);
    all
}

/// What else a variable of a forecast says. Where the time axis has bounds for the sums, other quantities hold at the
/// instant.
pub(super) fn of_forecasts(
    head: &ForecastHead,
    variable: &FileVariable,
) -> Vec<(&'static str, &'static str)> {
    let cell_methods = match variable.quantity.behaviour() {
        Behaviour::Accumulated => Some("time: sum"),
        _ if holds_sums(head) => Some("time: point"),
        _ => None,
    };
    let mut all: Vec<_> = cell_methods.map(|methods| ("cell_methods", methods)).into_iter().collect();
    all.push(("coordinates", "lead_time forecast_reference_time"));
    all
}

/// Copies one channel into the rows, columns and units of the file; missing stays NaN.
pub(super) fn to_file_order(
    state: &State,
    channel: usize,
    orientation: Orientation,
    conversion: Option<Linear>,
    out: &mut [f32],
) {
    let field = state.channel(channel);
    let (rows, columns) = field.dim();
    for (file_row, line) in out.chunks_exact_mut(columns).enumerate() {
        let row = if orientation.latitude_descending { rows - 1 - file_row } else { file_row };
        for (file_column, value) in line.iter_mut().enumerate() {
            let si = field[[row, (file_column + orientation.longitude_shift) % columns]];
            *value = match conversion {
                None => si,
                Some(Linear { factor, offset }) => ((f64::from(si) - offset) / factor) as f32,
            };
        }
    }
}
