//! The kernels' sources, which travel inside the program, and what their headers say about them.

/// A file of `kernels/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    pub name: &'static str,
    pub text: &'static str,
}

macro_rules! source {
    ($name:literal) => {
        Source { name: $name, text: include_str!(concat!("../../../kernels/", $name)) }
    };
}

/// What every source includes.
pub const COMMON: Source = source!("common.cuh");

/// Each is one module on the device.
pub const ALL: &[Source] = &[
    source!("elementary.cu"),
    source!("halo.cu"),
    source!("incoming.cu"),
    source!("int8.cu"),
    source!("convolution.cu"),
    source!("fields.cu"),
    source!("cell.cu"),
    source!("head.cu"),
    source!("layer_norm.cu"),
    source!("sums.cu"),
    source!("trial.cu"),
    source!("weights.cu"),
    source!("loss.cu"),
    source!("optimiser.cu"),
    source!("packed.cu"),
    source!("flow.cu"),
    source!("rates.cu"),
    source!("rows.cu"),
    source!("stencils.cu"),
    source!("waves.cu"),
    source!("transport.cu"),
];

impl Source {
    /// The words behind `key:` in the comment at the head of the file.
    pub fn header(&self, key: &str) -> Vec<&'static str> {
        let comment = self.text.lines().take_while(|line| line.starts_with("//"));
        comment
            .filter_map(|line| line.trim_start_matches('/').trim_start().strip_prefix(key)?.strip_prefix(':'))
            .flat_map(str::split_whitespace)
            .collect()
    }

    /// The kernels in the file and what they take.
    pub fn kernels(&self) -> Vec<(&'static str, Vec<Parameter>)> {
        let definitions = self.text.split("extern \"C\" __global__ void").skip(1);
        definitions
            .filter_map(|definition| {
                let definition = match definition.trim_start().strip_prefix("__launch_bounds__(") {
                    Some(bounds) => bounds.split_once(')')?.1,
                    None => definition,
                };
                let (name, rest) = definition.split_once('(')?;
                let (parameters, _) = rest.split_once(')')?;
                Some((name.trim(), parameters.split(',').map(Parameter::of).collect()))
            })
            .collect()
    }
}

/// The type of a parameter, as far as a launch has to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter {
    /// To anything.
    Pointer,
    /// To numbers that are kept as they are.
    Reals,
    /// To activations.
    Acts,
    /// 32 bits.
    Int,
    /// 64 bits.
    Long,
    /// `REAL`
    Real,
    Float,
    Double,
    /// A type that no launch passes.
    Other,
}

impl Parameter {
    /// Whether an argument of kind `given` may be passed; `narrow` says that activations are stored in fewer bits.
    pub fn takes(self, given: Self, narrow: bool) -> bool {
        match self {
            Self::Pointer => matches!(given, Self::Pointer | Self::Reals | Self::Acts),
            Self::Reals | Self::Acts if !narrow => Self::Pointer.takes(given, false),
            Self::Reals | Self::Acts => given == self || given == Self::Pointer,
            _ => given == self,
        }
    }

    /// Of `const real* x`.
    fn of(declaration: &str) -> Self {
        let words: Vec<&str> = declaration.split_whitespace().filter(|word| *word != "const").collect();
        match words[..] {
            ["real*", _] => Self::Reals,
            ["act*", _] => Self::Acts,
            _ if declaration.contains('*') => Self::Pointer,
            ["int" | "u32", _] => Self::Int,
            ["i64", _] => Self::Long,
            ["real", _] => Self::Real,
            ["float", _] => Self::Float,
            ["double", _] => Self::Double,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_kernels_are_read_from_the_text() {
        let source = ALL[0];
        assert_eq!(source.header("architectures"), ["sm_80", "sm_90a", "sm_100"]);
        let names: Vec<&str> = source.kernels().iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["scale", "lerp", "relax", "sum_of_squares_parts", "sum_of_parts"]);
        use Parameter::{Long, Real, Reals};
        assert_eq!(source.kernels()[1].1, [Reals, Reals, Real, Long]);
    }

    #[test]
    fn every_parameter_of_every_kernel_is_one_that_a_launch_can_pass() {
        for (name, parameters) in ALL.iter().flat_map(Source::kernels) {
            assert!(!parameters.contains(&Parameter::Other), "{name}: {parameters:?}");
        }
    }
}
