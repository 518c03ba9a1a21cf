//! The table `[model]`.

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::model::Architecture;

/// `[model]`: what the network is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelConfig {
    /// Hidden channels of each ConvLSTM layer, bottom first.
    pub hidden: Vec<usize>,
    /// Side of the square convolution kernels, odd.
    pub kernel: usize,
    /// 1, 2 or 4: `patch x patch` grid points become channels of one point.
    pub patch: usize,
    /// Normalise the gate pre-activations over the channels of one grid point.
    pub layer_norm: bool,
    /// Gates also see the cell state of their own unit.
    pub peepholes: bool,
    /// The head gives the tendency that is added to the last state, not the state itself.
    pub residual: bool,
    /// Analyses that a forecast starts from.
    pub input_frames: usize,
    /// Share of the units that are silenced while training, at least 0 and less than 1.
    pub dropout: f64,
}

/// Channels that the data bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channels {
    pub prognostic: usize,
    pub statics: usize,
    pub forcings: usize,
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            hidden: vec![32, 32],
            kernel: 5,
            patch: 1,
            layer_norm: false,
            peepholes: false,
            residual: true,
            input_frames: 2,
            dropout: 0.0,
        }
    }
}

impl ModelConfig {
    /// The network for data of these channels.
    pub fn architecture(&self, channels: Channels) -> Result<Architecture> {
        let architecture = Architecture {
            prognostic: channels.prognostic,
            statics: channels.statics,
            forcings: channels.forcings,
            hidden: self.hidden.clone(),
            kernel: self.kernel,
            patch: self.patch,
            layer_norm: self.layer_norm,
            peepholes: self.peepholes,
            residual: self.residual,
            input_frames: self.input_frames,
            dropout: self.dropout,
        };
        architecture.validate().map_err(|error| error.context("[model]"))?;
        Ok(architecture)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_a_network_and_an_even_kernel_is_not() {
        let channels = Channels { prognostic: 3, statics: 2, forcings: 0 };
        let architecture = ModelConfig::default().architecture(channels).unwrap();
        assert_eq!(architecture.inputs(), 5);
        let even = ModelConfig { kernel: 4, ..ModelConfig::default() };
        assert!(even.architecture(channels).is_err());
    }

    #[test]
    fn a_network_that_cannot_be_is_refused_with_the_setting_named() {
        let channels = Channels { prognostic: 3, statics: 0, forcings: 0 };
        let refused = |change: fn(&mut ModelConfig)| {
            let mut config = ModelConfig::default();
            change(&mut config);
            crate::error::chain(&config.architecture(channels).unwrap_err())
        };
        assert!(refused(|c| c.kernel = 4).contains("kernel must be odd, found 4"));
        assert!(refused(|c| c.kernel = 0).contains("kernel must be odd, found 0"));
        assert!(refused(|c| c.kernel = 999_999_999).contains("kernel is 999999999, the most is"));
        assert!(refused(|c| c.hidden = vec![8, 1 << 40]).contains("hidden is 1099511627776"));
        assert!(refused(|c| c.input_frames = usize::MAX).contains("input_frames is"));
        assert!(refused(|c| c.patch = 3).contains("patch must be 1, 2 or 4, found 3"));
        assert!(refused(|c| c.hidden = vec![]).contains("layers"));
        assert!(refused(|c| c.hidden = vec![8, 0]).contains("layer 1"));
        assert!(refused(|c| c.input_frames = 0).contains("input frames"));
        assert!(refused(|c| c.dropout = 1.0).contains("dropout must lie in [0, 1), found 1"));
        assert!(refused(|c| c.dropout = f64::NAN).contains("dropout"));
    }
}
