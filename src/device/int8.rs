//! Numbers counted in steps: convolutions of whole numbers, and what stands in for them while a network learns.
//!
//! `q(x) = round(x / step)`, a tie to the even number, kept from `-most - 1` to `most`: -128 to 127 in 8 bits, as ONNX's
//! QuantizeLinear has it.

use std::sync::Arc;

use crate::error::{Error, Result};

/// How numbers are counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Counting {
    pub step: f32,
    /// The largest whole number.
    pub most: f32,
}

impl Counting {
    /// The largest whole number of 8 bits.
    pub const INT8: f32 = 127.0;

    /// In 8 bits, for numbers up to `range`.
    pub fn int8(range: f32) -> Self {
        Self { step: range / Self::INT8, most: Self::INT8 }
    }
}

/// The weights of a convolution as whole numbers from -127 to 127, `w[a, b, c, k] = steps[k] q[a, b, c, k]`. Cheap to copy; a
/// device keeps a copy in an order of its own.
#[derive(Debug, Clone)]
pub struct Int8Kernel(pub(super) Arc<Weights>);

#[derive(Debug)]
pub(super) struct Weights {
    pub kernel: usize,
    pub inputs: usize,
    pub outputs: usize,
    /// `[kernel, kernel, inputs, outputs]`
    pub numbers: Vec<i8>,
    /// `[outputs]`
    pub steps: Vec<f32>,
}

/// The most products of two numbers of 8 bits whose sum always fits into 32.
const MOST_TERMS: usize = i32::MAX as usize / (128 * 127);

impl Int8Kernel {
    /// Numbers `[kernel, kernel, inputs, outputs]`, steps `[outputs]`. Refuses a kernel whose sums could pass 32 bits.
    pub fn new(
        kernel: usize,
        inputs: usize,
        outputs: usize,
        numbers: Vec<i8>,
        steps: Vec<f32>,
    ) -> Result<Self> {
        let terms = kernel * kernel * inputs;
        if terms > MOST_TERMS {
            return Err(Error::input(format!(
                "a convolution that sums {terms} numbers of 8 bits may pass 32 bits; the most are {MOST_TERMS}"
            ))
            .hint("use another precision"));
        }
        if numbers.len() != terms * outputs || steps.len() != outputs {
            return Err(Error::input(format!(
                "{} whole numbers and {} steps are no kernel of {terms} terms and {outputs} outputs",
                numbers.len(),
                steps.len()
            )));
        }
        Ok(Self(Arc::new(Weights { kernel, inputs, outputs, numbers, steps })))
    }
}
