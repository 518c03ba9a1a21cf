//! Where a field lies in the vertical (section 4, octets 23 to 34, code table 4.5).

use super::sections::Octets;

/// The surface, or the layer between two, that a field belongs to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Vertical {
    /// [Pa]
    Isobaric(f64),
    Other(Surface, Option<Surface>),
}

/// A fixed surface: its kind and, where it has one, its value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Surface {
    pub kind: u8,
    pub value: Option<f64>,
}

pub const GROUND: u8 = 1;
pub const MEAN_SEA: u8 = 101;
/// Above the ground [m].
pub const HEIGHT: u8 = 103;
const ISOBARIC: u8 = 100;

impl Surface {
    /// The surface that begins at an octet; `None` for none.
    fn read(product: Octets<'_>, octet: usize) -> Option<Self> {
        let kind = product.u8(octet);
        let digits = product.u32(octet + 2);
        // A scale factor of "missing" with a value is read as no scale.
        let scale = if product.u8(octet + 1) == u8::MAX { 0 } else { product.i8(octet + 1) };
        let value = (digits != u32::MAX)
            .then(|| f64::from(product.i32(octet + 2)) / 10_f64.powi(scale.into()))
            .filter(|value| value.is_finite());
        (kind != u8::MAX).then_some(Self { kind, value })
    }

    /// `2m`, `surface`, `tropopause`: what tells apart variables of one name.
    fn label(self) -> String {
        let value = self.value.unwrap_or(0.0);
        match self.kind {
            GROUND => "surface".into(),
            2 => "cloud_base".into(),
            3 => "cloud_top".into(),
            4 => "freezing".into(),
            6 => "max_wind".into(),
            7 => "tropopause".into(),
            8 => "top".into(),
            10 | 200 => "column".into(),
            MEAN_SEA => "sea".into(),
            102 => format!("{value}m_above_sea"),
            HEIGHT => format!("{value}m"),
            106 => format!("{value}m_deep"),
            107 => format!("{value}K"),
            109 => format!("{value}PVU"),
            160 => format!("{value}m_below_sea"),
            ISOBARIC => format!("{}hPa", value / 100.0),
            kind => match self.value {
                Some(value) => format!("level{kind}_{value}"),
                None => format!("level{kind}"),
            },
        }
    }

    fn is(self, kind: u8) -> bool {
        self.kind == kind
    }
}

impl Vertical {
    /// Reads section 4; `Err` has a sentence's end and a remedy.
    pub fn read(product: Octets<'_>) -> Result<Option<Self>, (String, String)> {
        let refuse = |what: String, remedy: &str| Err((what, remedy.to_string()));
        let Some(first) = Surface::read(product, 23) else { return Ok(None) };
        let second = Surface::read(product, 29);
        match (first, second) {
            (Surface { kind: 104 | 105 | 118 | 119 | 150, .. }, _) => refuse(
                format!("lies on model levels (surface type {}), not on pressure levels", first.kind),
                "interpolate to pressure levels first: cdo ml2pl,85000,50000 FILE OUT",
            ),
            (Surface { kind: ISOBARIC, value }, None) => {
                match value.filter(|p| *p > 0.0 && *p <= 110_000.0) {
                    Some(pressure) => Ok(Some(Self::Isobaric(pressure))),
                    None => refuse(
                        format!("lies on {} Pa, which is not in the atmosphere", value.unwrap_or(0.0)),
                        "the message may be damaged: copy or download the file again",
                    ),
                }
            }
            // Some write the surface itself as both ends of a layer.
            (_, Some(same)) if same == first => Ok(Some(Self::Other(first, None))),
            _ => Ok(Some(Self::Other(first, second))),
        }
    }

    pub fn is_isobaric(self) -> bool {
        matches!(self, Self::Isobaric(_))
    }

    /// Whether it is this surface and no layer.
    pub fn is_surface(self, kind: u8) -> bool {
        matches!(self, Self::Other(first, None) if first.is(kind))
    }

    /// Whether it is the whole column of air.
    pub fn is_column(self) -> bool {
        match self {
            Self::Other(first, None) => first.is(10) || first.is(200) || first.is(GROUND),
            Self::Other(first, Some(second)) => first.is(GROUND) && second.is(8),
            Self::Isobaric(_) => false,
        }
    }

    /// Above the ground [m].
    pub fn height(self) -> Option<f64> {
        match self {
            Self::Other(Surface { kind: HEIGHT, value }, None) => value,
            _ => None,
        }
    }

    pub fn label(self) -> String {
        match self {
            Self::Isobaric(pressure) => format!("{}hPa", pressure / 100.0),
            Self::Other(first, None) => first.label(),
            Self::Other(first, Some(second)) => format!("{}_to_{}", first.label(), second.label()),
        }
    }
}
