//! Convolutions in the arithmetic of a precision.

use half::{bf16, f16};

use super::builder::{Builder, Wire};
use super::messages::{Attribute, Type};
use crate::export::quantise::{MOST_FLOAT8, to_float8, to_int8};

/// What convolutions compute with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arithmetic {
    Single,
    /// In 16 bits.
    Narrow(Type),
    /// In float32 with numbers rounded to 16 bits: the same numbers where a library has no 16-bit convolution.
    Rounded(Type),
    /// In 8 bits; the number is where what is read is cut off.
    Quantised(Type, f32),
}

/// The kernel of a convolution of padded images.
pub struct Kernel {
    weights: Wire,
    side: usize,
    arithmetic: Arithmetic,
    /// What is read is counted in, and the zero that says in which kind of number.
    counted: Option<[Wire; 2]>,
}

impl Kernel {
    /// `values` are `[outputs, inputs, side, side]`.
    pub fn new(
        builder: &mut Builder,
        name: &str,
        shape: [usize; 4],
        values: &[f32],
        arithmetic: Arithmetic,
    ) -> Self {
        let mut counted = None;
        let weights = match arithmetic {
            Arithmetic::Single => builder.floats(name, &shape, values),
            Arithmetic::Quantised(kind, range) => {
                let (most, (numbers, steps)) = match kind {
                    Type::Float8 => (MOST_FLOAT8, to_float8(values, shape[0])),
                    _ => (127.0, to_int8(values, shape[0])),
                };
                let numbers = builder.constant(name, &shape, kind, numbers);
                let steps = builder.floats(&format!("{name}.step"), &[shape[0]], &steps);
                let step = builder.number(&format!("{name}.input_step"), range / most);
                let zero = builder.constant(&format!("{name}.zero"), &[], kind, vec![0]);
                counted = Some([step, zero]);
                builder.node("DequantizeLinear", &[&numbers, &steps], vec![Attribute::int("axis", 0)])
            }
            Arithmetic::Narrow(kind) => builder.floats_as(name, &shape, values, kind),
            Arithmetic::Rounded(kind) => {
                let values: Vec<f32> = values.iter().map(|&x| rounded(x, kind)).collect();
                builder.floats(name, &shape, &values)
            }
        };
        Self { weights, side: shape[3], arithmetic, counted }
    }

    /// From float32 to float32.
    pub fn convolve(&self, builder: &mut Builder, x: &Wire) -> Wire {
        let side = self.side as i64;
        let shape = vec![Attribute::ints("kernel_shape", &[side, side])];
        match self.arithmetic {
            Arithmetic::Single | Arithmetic::Quantised(..) => {
                let x = match &self.counted {
                    Some([step, zero]) => {
                        let numbers = builder.node("QuantizeLinear", &[x, step, zero], Vec::new());
                        builder.node("DequantizeLinear", &[&numbers, step, zero], Vec::new())
                    }
                    None => x.clone(),
                };
                builder.node("Conv", &[&x, &self.weights], shape)
            }
            Arithmetic::Narrow(kind) => {
                let x = builder.cast(x, kind);
                let y = builder.node("Conv", &[&x, &self.weights], shape);
                builder.cast(&y, Type::Float)
            }
            Arithmetic::Rounded(kind) => {
                let x = there_and_back(builder, x, kind);
                let y = builder.node("Conv", &[&x, &self.weights], shape);
                there_and_back(builder, &y, kind)
            }
        }
    }
}

fn there_and_back(builder: &mut Builder, x: &Wire, kind: Type) -> Wire {
    let narrow = builder.cast(x, kind);
    builder.cast(&narrow, Type::Float)
}

fn rounded(x: f32, kind: Type) -> f32 {
    match kind {
        Type::Float16 => f16::from_f32(x).to_f32(),
        Type::Bfloat16 => bf16::from_f32(x).to_f32(),
        _ => x,
    }
}
