//! The tables `[data]` and `[input]`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::climatology::ClimatologyKind;
use crate::error::{Context, Error, Result};
use crate::preprocess::{
    DataPlan, DuplicatePolicy, Forcing, GridPlan, GridTarget, InputsPlan, MissingPolicy, NormalizerPlan,
    RegridMethod, SourcePlan, Span, Split, StaticField, StaticFile, StaticPlan,
};
use crate::time::{Calendar, LeadTime, ValidTime};
use crate::variable::{Quantity, Variable};

/// `[data]`: which files, which quantities, and how they are split in time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// The folder in which relative paths of this table and of `[input]` start; the working folder when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    pub sources: Vec<SourceConfig>,
    /// The channels, in this order; when left out, everything that the sources give, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quantities: Vec<String>,
    /// Time between states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<LeadTime>,
    /// What to do about missing dates and values.
    pub missing: MissingPolicy,
    /// What to do about a date that comes twice.
    pub duplicates: DuplicatePolicy,
    /// CF name of the calendar of the files; the standard one when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calendar: Option<String>,
    /// Regrid on reading.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grid: Option<GridConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<SplitConfig>,
}

/// A variable of some files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceConfig {
    /// File names, with `*`, `?` and `**`.
    pub glob: String,
    /// The file's name for the variable, or the canonical one.
    pub variable: String,
    /// The levels wanted [hPa]; one level names that of files which do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Levels>,
    /// The quantity that this really is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rename: Option<String>,
    /// The unit that the numbers really have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// What an accumulated value covers, where the files do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<LeadTime>,
}

/// `500` or `[850, 500]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Levels {
    One(f64),
    Many(Vec<f64>),
}

/// Half-open spans, `[first date, first date that no longer belongs]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitConfig {
    pub train: [String; 2],
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<[String; 2]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<[String; 2]>,
}

/// A grid of `step` degrees, over the globe or between bounds; between bounds alone, the points of the files themselves; or the
/// grid of another file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GridConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<f64>,
    /// Southernmost row, and so on; all four or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub south: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub north: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub west: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub east: Option<f64>,
    /// A file whose grid is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub like: Option<PathBuf>,
    pub method: RegridMethod,
}

/// `[input]`: how fields are normalised, and what the network is told besides them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InputConfig {
    /// Normalise what is left after the climatology, and not only after the mean.
    pub anomalies: bool,
    /// `harmonic`: mean and two annual harmonics; `wb2`: the day-of-year window of WeatherBench 2.
    pub climatology: ClimatologyKind,
    /// Static fields.
    pub statics: Vec<StaticField>,
    /// Time forcings.
    pub forcings: Vec<Forcing>,
    /// Where the static field `orography` is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orography: Option<StaticFileConfig>,
    /// Where the static field `land_sea_mask` is; made from the bundled coastlines when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub land_sea_mask: Option<StaticFileConfig>,
    /// Quantities that are never negative and enter as `ln(1 + x / epsilon)`, with their epsilon in SI units.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub log: BTreeMap<String, f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StaticFileConfig {
    pub file: PathBuf,
    /// The file's name for the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
}

impl Default for InputConfig {
    fn default() -> Self {
        Self {
            anomalies: true,
            climatology: ClimatologyKind::default(),
            statics: Vec::new(),
            forcings: Vec::new(),
            orography: None,
            land_sea_mask: None,
            log: BTreeMap::new(),
        }
    }
}

impl DataConfig {
    /// The checked settings; an error for a configuration without sources or step.
    pub fn plan(&self) -> Result<DataPlan> {
        if self.sources.is_empty() {
            return Err(Error::input("data.sources is empty: there is nothing to read")
                .hint("add sources = [{ glob = \"files/*.nc\", variable = \"t2m\" }]"));
        }
        if let Some(step) = self.step.filter(|step| step.seconds <= 0) {
            return Err(Error::input(format!("data.step: {step} is no time between two states"))
                .hint("write step = \"6h\"; wxsim inspect tells the step of a file"));
        }
        let step = self.step.ok_or_else(|| {
            Error::input("data.step, the time between two states, is missing")
                .hint("add step = \"6h\"; wxsim inspect tells the step of a file")
        })?;
        Ok(DataPlan {
            sources: self.sources.iter().map(|s| s.plan(self.root.as_deref())).collect::<Result<_>>()?,
            quantities: self.quantities.iter().map(|label| Quantity::parse(label)).collect(),
            step,
            split: self.split.as_ref().map(|s| s.plan(self.calendar()?)).transpose()?,
            missing: self.missing,
            duplicates: self.duplicates,
            grid: self.grid.as_ref().map(|g| g.plan(self.root.as_deref())).transpose()?,
        })
    }

    fn calendar(&self) -> Result<Calendar> {
        let Some(name) = &self.calendar else { return Ok(Calendar::default()) };
        Calendar::from_cf(name).ok_or_else(|| {
            Error::input(format!("data.calendar: '{name}' is not a calendar"))
                .hint("use standard, julian, noleap, all_leap or 360_day")
        })
    }
}

impl SourceConfig {
    fn plan(&self, root: Option<&Path>) -> Result<SourcePlan> {
        let levels = match &self.level {
            None => Vec::new(),
            Some(Levels::One(level)) => vec![*level],
            Some(Levels::Many(levels)) => levels.clone(),
        };
        if let Some(wrong) = levels.iter().find(|level| !(level.is_finite() && **level > 0.0)) {
            return Err(Error::input(format!(
                "data.sources: {wrong} is not a pressure level of '{}'",
                self.variable
            ))
            .hint("levels are in hPa"));
        }
        let name = self.rename.as_ref().unwrap_or(&self.variable);
        if let Some(known) = Variable::find(name).filter(|known| !known.has_levels() && !levels.is_empty()) {
            return Err(Error::input(format!(
                "data.sources: '{name}' is {}, which lies on no pressure level",
                known.long_name
            ))
            .hint("leave level out, or say with rename = \"...\" what the variable is"));
        }
        Ok(SourcePlan {
            glob: under(root, Path::new(&self.glob)).to_string_lossy().into_owned(),
            variable: self.variable.clone(),
            levels,
            rename: self.rename.clone(),
            unit: self.unit.clone(),
            period: self.period,
        })
    }
}

impl SplitConfig {
    fn plan(&self, calendar: Calendar) -> Result<Split> {
        let span = |name: &str, [start, end]: &[String; 2]| {
            let parse = |text: &str| ValidTime::parse(text, calendar);
            parse(start)
                .and_then(|start| Span::new(start, parse(end)?))
                .context(|| format!("data.split.{name}"))
        };
        let optional =
            |name: &str, dates: &Option<[String; 2]>| dates.as_ref().map(|d| span(name, d)).transpose();
        Split::new(
            span("train", &self.train)?,
            optional("validation", &self.validation)?,
            optional("test", &self.test)?,
        )
    }
}

impl GridConfig {
    fn plan(&self, root: Option<&Path>) -> Result<GridPlan> {
        let target = match (self.step, self.south, self.north, self.west, self.east, &self.like) {
            (None, None, None, None, None, Some(file)) => GridTarget::Like(under(root, file)),
            (Some(step), None, None, None, None, None) => {
                let rows = 180.0 / step;
                if !(step > 0.0 && rows >= 2.0 && (rows - rows.round()).abs() < 1e-6) {
                    return Err(Error::input(format!("data.grid: 180 degrees are not whole rows of {step}"))
                        .hint("use a step such as 1.5, 2.5 or 5.625, or give south, north, west and east"));
                }
                GridTarget::Globe { step }
            }
            (Some(step), Some(south), Some(north), Some(west), Some(east), None) => {
                let width = (east - west).rem_euclid(360.0);
                if !(step > 0.0 && south + step <= north && width >= step && south >= -90.0 && north <= 90.0)
                {
                    return Err(Error::input(format!(
                        "data.grid: {south} to {north} N and {west} to {east} E in steps of {step} is not a grid"
                    ))
                    .hint("bounds are the outermost points, south before north and west before east"));
                }
                GridTarget::Region { step, south, north, west, east }
            }
            (None, Some(south), Some(north), Some(west), Some(east), None) => {
                let finite = [south, north, west, east].iter().all(|x| x.is_finite());
                if !finite || south >= north || west == east {
                    return Err(Error::input(format!(
                        "data.grid: {south} to {north} N and {west} to {east} E is not a part of a grid"
                    ))
                    .hint("south lies before north and west before east"));
                }
                GridTarget::Part { south, north, west, east }
            }
            _ => {
                return Err(Error::input("data.grid needs a step, all four bounds, both, or a file")
                    .hint("grid = { step = 5.625 }, { south = 30, north = 60, west = -20, east = 14.5 }, the same with a step, or { like = \"file.nc\" }"));
            }
        };
        Ok(GridPlan { target, method: self.method })
    }
}

impl InputConfig {
    pub fn normalizer(&self) -> Result<NormalizerPlan> {
        let log = self.log.iter().map(|(label, &epsilon)| {
            if !(epsilon.is_finite() && epsilon > 0.0) {
                return Err(Error::input(format!("input.log.{label}: {epsilon} is not positive"))
                    .hint("use a small amount in SI units, such as 1e-5 (m) for precipitation"));
            }
            Ok((Quantity::parse(label), epsilon))
        });
        Ok(NormalizerPlan {
            anomalies: self.anomalies,
            climatology: self.climatology,
            log: log.collect::<Result<_>>()?,
        })
    }

    /// `data` says where relative paths start.
    pub fn inputs(&self, data: &DataConfig) -> Result<InputsPlan> {
        let file = |file: &StaticFileConfig| StaticFile {
            path: under(data.root.as_deref(), &file.file),
            variable: file.variable.clone(),
        };
        let given = [
            ("orography", StaticField::Orography, &self.orography),
            ("land_sea_mask", StaticField::LandSeaMask, &self.land_sea_mask),
        ];
        for (name, field, config) in &given {
            if config.is_some() && !self.statics.contains(field) {
                return Err(Error::input(format!(
                    "input.{name} names a file, but input.statics does not list '{name}'"
                )));
            }
        }
        let mut statics: Vec<StaticPlan> = Vec::new();
        for &field in &self.statics {
            if statics.iter().any(|s| s.field == field) {
                return Err(Error::input(format!("input.statics lists '{}' twice", field.channels()[0])));
            }
            let config =
                given.iter().find(|(_, f, _)| *f == field).and_then(|(_, _, config)| config.as_ref());
            statics.push(StaticPlan { field, file: config.map(file) });
        }
        for (i, forcing) in self.forcings.iter().enumerate() {
            if self.forcings[..i].contains(forcing) {
                return Err(Error::input(format!("input.forcings lists '{}' twice", forcing.channels()[0])));
            }
        }
        Ok(InputsPlan { statics, forcings: self.forcings.clone() })
    }
}

fn under(root: Option<&Path>, path: &Path) -> PathBuf {
    root.map_or_else(|| path.to_path_buf(), |root| root.join(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EUROPE: &str = r#"
        root = "../shared/data/era-interim-europe"
        step = "1d"
        sources = [
            { glob = "mslp_ei.nc", variable = "msl" },
            { glob = "t850_ei.nc", variable = "t", level = 850 },
            { glob = "z*_ei.nc", variable = "z", level = [850, 500] },
        ]
        split.train = ["2000-01-01", "2007-10-19"]
        split.validation = ["2007-10-19", "2008-10-19"]
        split.test = ["2008-10-19", "2011-01-01"]
    "#;

    fn data(text: &str) -> DataConfig {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_configuration_becomes_a_plan() {
        let plan = data(EUROPE).plan().unwrap();
        assert_eq!(plan.step, LeadTime::from_hours(24));
        assert_eq!(plan.sources[1].levels, [850.0]);
        assert_eq!(plan.sources[2].levels, [850.0, 500.0]);
        assert!(plan.sources[0].glob.ends_with("era-interim-europe/mslp_ei.nc"));
        let split = plan.split.unwrap();
        assert_eq!(split.validation.unwrap().start, split.train.end);
        let text = toml::to_string(&data(EUROPE)).unwrap();
        assert_eq!(data(&text), data(EUROPE));
    }

    #[test]
    fn wrong_settings_are_refused_with_their_key() {
        let refused = |from: &str, to: &str| {
            let text = EUROPE.replace(from, to);
            assert_ne!(text, EUROPE);
            crate::error::chain(&data(&text).plan().unwrap_err())
        };
        assert!(
            refused("\"2007-10-19\", \"2008-10-19\"", "\"2007-10-18\", \"2008-10-19\"").contains("overlap")
        );
        assert!(
            refused("\"2008-10-19\", \"2011-01-01\"", "\"2011-01-01\", \"2011-01-01\"")
                .contains("split.test")
        );
        assert!(refused("2000-01-01", "2000-02-30").contains("split.train"));
        assert!(refused("step = \"1d\"", "").contains("data.step"));
        assert!(refused("level = 850", "level = -1").contains("pressure level"));
        assert!(refused("step = \"1d\"", "step = \"1d\"\ncalendar = \"lunar\"").contains("data.calendar"));
        for grid in ["{}", "{ step = 7.0 }", "{ step = 1.0, south = 3 }", "{ step = 1.0, like = \"a.nc\" }"] {
            let grid = format!("step = \"1d\"\ngrid = {grid}");
            assert!(refused("step = \"1d\"", &grid).contains("data.grid"), "{grid}");
        }
        assert!(
            toml::from_str::<DataConfig>("sources = [{ glob = \"a\", variable = \"b\", levle = 3 }]")
                .is_err()
        );
    }

    #[test]
    fn inputs_that_contradict_themselves_are_refused() {
        let inputs = |text: &str| {
            let config: InputConfig = toml::from_str(text).unwrap();
            config.normalizer().and(config.inputs(&DataConfig::default()))
        };
        let plan =
            inputs("statics = [\"land_sea_mask\", \"orography\"]\norography = { file = \"o.nc\" }").unwrap();
        assert_eq!(plan.statics[1].file.as_ref().unwrap().path, Path::new("o.nc"));
        assert!(inputs("orography = { file = \"o.nc\" }").is_err());
        assert!(inputs("statics = [\"longitude\", \"longitude\"]").is_err());
        assert!(inputs("forcings = [\"solar\", \"solar\"]").is_err());
        assert!(inputs("log = { tp = 0.0 }").is_err());
        assert!(toml::from_str::<InputConfig>("statics = [\"moon\"]").is_err());
    }
}
