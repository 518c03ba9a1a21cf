//! A writer of GRIB2 messages, octet by octet as the manual has them (WMO Manual on Codes, Vol. I.2, FM 92), whose values
//! are whole numbers that the test chose.

/// Section 3 of a regular grid. Angles in millionths of a degree.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// 0 or 40.
    pub template: u16,
    pub columns: u32,
    pub rows: u32,
    pub first: [i32; 2],
    pub last: [i32; 2],
    /// Step along a row, and along a column or, for a Gaussian grid, the parallels from pole to equator.
    pub steps: [u32; 2],
    pub scanning: u8,
}

/// Section 4 behind its parameter.
#[derive(Debug, Clone, Copy)]
pub enum Product {
    /// A forecast of so many hours (template 4.0).
    Moment { hours: u32 },
    /// A statistic (code table 4.10) over the hours between (template 4.8).
    Period { code: u8, from: u32, to: u32 },
    /// A member of an ensemble (template 4.1).
    Member { hours: u32, number: u8 },
}

/// One field. `stored` are its packed numbers in the order of the message.
#[derive(Debug, Clone)]
pub struct Message {
    pub discipline: u8,
    pub centre: u16,
    /// Year, month, day, hour.
    pub reference: [u16; 4],
    pub parameter: [u8; 2],
    /// Type, scale factor and scaled value of the first surface.
    pub surface: (u8, u8, u32),
    pub product: Product,
    pub layout: Layout,
    pub stored: Vec<u32>,
    /// Which points have a number, in the order of the message.
    pub bitmap: Option<Vec<bool>>,
    pub bits: u8,
    /// R, E and D of `value = (R + X 2^E) / 10^D`.
    pub scale: (f32, i16, i16),
}

/// 5 columns eastward from 0, 4 rows southward from 60, 10 degrees apart.
pub const SMALL: Layout = Layout {
    template: 0,
    columns: 5,
    rows: 4,
    first: [60_000_000, 0],
    last: [30_000_000, 40_000_000],
    steps: [10_000_000, 10_000_000],
    scanning: 0,
};

impl Message {
    /// Temperature on 500 hPa, an analysis, on [`SMALL`]: K, to a tenth, numbered from `first`.
    pub fn temperature(first: u32) -> Self {
        Self {
            discipline: 0,
            centre: 98,
            reference: [2020, 1, 1, 0],
            parameter: [0, 0],
            surface: (100, 0, 50_000),
            product: Product::Moment { hours: 0 },
            layout: SMALL,
            stored: (0..20).map(|i| first + i).collect(),
            bitmap: None,
            bits: 12,
            scale: (2000.0, 0, 1),
        }
    }

    /// The value of a packed number, as the format defines it.
    pub fn value(&self, stored: u32) -> f32 {
        let (reference, binary, decimal) = self.scale;
        let sum = f64::from(reference) + f64::from(stored) * 2_f64.powi(binary.into());
        (sum / 10_f64.powi(decimal.into())) as f32
    }

    pub fn bytes(&self) -> Vec<u8> {
        together(&[self])
    }
}

/// A message of several fields, which share what the sections before their products say. The bitmap of the first is
/// repeated by those behind it that have the same.
pub fn together(fields: &[&Message]) -> Vec<u8> {
    let head = fields[0];
    let mut body = section(1, &identification(head));
    body.extend(section(3, &grid(&head.layout)));
    for (n, field) in fields.iter().enumerate() {
        body.extend(section(4, &product(field)));
        body.extend(section(5, &packing(field)));
        let bitmap = match &field.bitmap {
            None => vec![255],
            Some(_) if n > 0 && field.bitmap == head.bitmap => vec![254],
            Some(points) => {
                let bits: Vec<(u32, u8)> = points.iter().map(|p| (u32::from(*p), 1)).collect();
                [vec![0], bit_row(&bits)].concat()
            }
        };
        body.extend(section(6, &bitmap));
        let bits: Vec<(u32, u8)> = field.stored.iter().map(|x| (*x, field.bits)).collect();
        body.extend(section(7, &bit_row(&bits)));
    }
    wrap(head.discipline, &body)
}

/// Sections 0 and 8 around the others.
pub fn wrap(discipline: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = b"GRIB\0\0".to_vec();
    bytes.extend([discipline, 2]);
    bytes.extend((body.len() as u64 + 20).to_be_bytes());
    bytes.extend(body);
    bytes.extend(b"7777");
    bytes
}

pub fn section(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = (content.len() as u32 + 5).to_be_bytes().to_vec();
    bytes.push(number);
    bytes.extend(content);
    bytes
}

/// Numbers of so many bits each, one behind the other.
pub fn bit_row(numbers: &[(u32, u8)]) -> Vec<u8> {
    let mut bits: Vec<u8> = Vec::new();
    for (number, width) in numbers {
        bits.extend((0..*width).rev().map(|bit| (number >> bit & 1) as u8));
    }
    bits.chunks(8).map(|byte| byte.iter().enumerate().map(|(n, bit)| bit << (7 - n)).sum()).collect()
}

fn identification(field: &Message) -> Vec<u8> {
    let [year, month, day, hour] = field.reference;
    let mut bytes = field.centre.to_be_bytes().to_vec();
    bytes.extend([0, 0, 28, 0, 1]); // sub-centre, tables, a start of forecast
    bytes.extend(year.to_be_bytes());
    bytes.extend([month as u8, day as u8, hour as u8, 0, 0, 0, 1]);
    bytes
}

fn signed(value: i32) -> [u8; 4] {
    let sign = if value < 0 { 0x8000_0000 } else { 0 };
    (value.unsigned_abs() | sign).to_be_bytes()
}

pub fn grid(layout: &Layout) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend((layout.columns * layout.rows).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(layout.template.to_be_bytes());
    bytes.push(6);
    bytes.extend([0; 15]);
    bytes.extend(layout.columns.to_be_bytes());
    bytes.extend(layout.rows.to_be_bytes());
    bytes.extend([0; 8]);
    layout.first.iter().for_each(|angle| bytes.extend(signed(*angle)));
    bytes.push(0x30);
    layout.last.iter().for_each(|angle| bytes.extend(signed(*angle)));
    layout.steps.iter().for_each(|step| bytes.extend(step.to_be_bytes()));
    bytes.push(layout.scanning);
    bytes
}

fn product(field: &Message) -> Vec<u8> {
    let (template, hours) = match field.product {
        Product::Moment { hours } => (0_u16, hours),
        Product::Member { hours, .. } => (1, hours),
        Product::Period { from, .. } => (8, from),
    };
    let mut bytes = vec![0, 0];
    bytes.extend(template.to_be_bytes());
    bytes.extend(field.parameter);
    bytes.extend([2, 0, 0, 0, 0, 0, 1]); // a forecast, in hours
    bytes.extend(hours.to_be_bytes());
    let (kind, scale, value) = field.surface;
    bytes.extend([kind, scale]);
    bytes.extend(value.to_be_bytes());
    bytes.extend([255; 6]);
    match field.product {
        Product::Moment { .. } => {}
        Product::Member { number, .. } => bytes.extend([3, number, 50]),
        Product::Period { code, from, to } => {
            let [year, month, day, hour] = field.reference;
            let hour = u32::from(hour) + to;
            bytes.extend(year.to_be_bytes());
            bytes.extend([month as u8, day as u8 + (hour / 24) as u8, (hour % 24) as u8, 0, 0, 1]);
            bytes.extend([0; 4]);
            bytes.extend([code, 2, 1]);
            bytes.extend((to - from).to_be_bytes());
            bytes.extend([1, 0, 0, 0, 0]);
        }
    }
    bytes
}

fn packing(field: &Message) -> Vec<u8> {
    let (reference, binary, decimal) = field.scale;
    let mut bytes = (field.stored.len() as u32).to_be_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend(reference.to_be_bytes());
    for scale in [binary, decimal] {
        let sign = if scale < 0 { 0x8000 } else { 0 };
        bytes.extend((scale.unsigned_abs() | sign).to_be_bytes());
    }
    bytes.extend([field.bits, 0]);
    bytes
}
