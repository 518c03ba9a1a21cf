//! What stands beside an engine: for what it was built, and of what. An engine that does not fit is refused in words.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Batch, Capability};
use crate::error::{Context, Error, Result};
use crate::io::atomic::write_whole;

/// The description of an engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineCard {
    /// `TensorRT for RTX 1.7.1`: an engine runs with the version that built it.
    pub library: String,
    /// Cards that it was built for.
    pub targets: Vec<Capability>,
    pub precision: String,
    pub batch: Batch,
    /// The checkpoint.
    pub run: String,
    /// Of the graph that it was built from.
    pub graph_sha256: String,
    pub engine_sha256: String,
    pub bindings: Vec<Binding>,
    /// How many layers of each kind the graph has, before they are fused.
    pub layers: std::collections::BTreeMap<String, usize>,
    /// What the convolutions compute in.
    pub convolutions: Vec<String>,
}

/// An input or output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binding {
    pub name: String,
    pub input: bool,
    /// -1 is the batch.
    pub shape: Vec<i64>,
    pub kind: String,
}

const REBUILD: &str = "build it again with: wxsim export RUN --tensorrt";

/// As sha256sum prints it.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl EngineCard {
    /// Beside its engine.
    pub fn path(engine: &Path) -> PathBuf {
        engine.with_extension("engine.json")
    }

    pub fn save(&self, engine: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::run("an engine's description cannot be written").caused_by(error))?;
        let path = Self::path(engine);
        write_whole(&path, |file| {
            file.write_all(text.as_bytes()).context(|| format!("cannot write {}", path.display()))
        })
    }

    pub fn load(engine: &Path) -> Result<Self> {
        let path = Self::path(engine);
        let text = std::fs::read_to_string(&path).map_err(|error| {
            Error::input(format!("there is no description {} of an engine", path.display()))
                .caused_by(error)
                .hint(REBUILD)
        })?;
        serde_json::from_str(&text).map_err(|error| {
            Error::input(format!("{} does not describe an engine", path.display()))
                .caused_by(error)
                .hint(REBUILD)
        })
    }

    /// Refuses an engine that was built from another graph, by another library, for other cards, or that is damaged.
    pub fn check(&self, engine: &[u8], graph: &[u8], library: &str, card: Capability) -> Result<()> {
        let refuse = |text: String| Err(Error::run(text).hint(REBUILD));
        if self.engine_sha256 != sha256(engine) {
            return refuse("the engine is damaged: it is not the one that its description describes".into());
        }
        if self.graph_sha256 != sha256(graph) {
            return refuse(format!("the engine was built from another network than this one ({})", self.run));
        }
        if self.library != library {
            return refuse(format!("the engine was built by {}, and here is {library}", self.library));
        }
        if !self.targets.contains(&card) {
            let targets: Vec<String> = self.targets.iter().map(ToString::to_string).collect();
            return refuse(format!(
                "the engine was built for compute capability {}, and this GPU has {card}",
                targets.join(" and ")
            ));
        }
        if self.batch.least > 1 {
            return refuse(format!("the engine takes {} forecasts at once or more", self.batch.least));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card() -> EngineCard {
        EngineCard {
            library: "TensorRT 11.4.0".into(),
            targets: vec![Capability(8, 9), Capability(12, 0)],
            precision: "fp16".into(),
            batch: Batch { least: 1, usual: 1, most: 8 },
            run: "runs/era5/checkpoints/step-9".into(),
            graph_sha256: sha256(b"graph"),
            engine_sha256: sha256(b"engine"),
            bindings: Vec::new(),
            layers: Default::default(),
            convolutions: Vec::new(),
        }
    }

    #[test]
    fn an_engine_that_does_not_fit_is_refused_with_the_reason() {
        let here = Capability(8, 9);
        let check = |card: &EngineCard, engine: &[u8], graph: &[u8], library: &str, here| {
            card.check(engine, graph, library, here).map_err(|error| error.to_string())
        };
        let good = card();
        assert_eq!(check(&good, b"engine", b"graph", "TensorRT 11.4.0", here), Ok(()));
        let refused = [
            (check(&good, b"enginE", b"graph", "TensorRT 11.4.0", here), "damaged"),
            (check(&good, b"engine", b"other", "TensorRT 11.4.0", here), "another network"),
            (
                check(&good, b"engine", b"graph", "TensorRT 11.5.0", here),
                "built by TensorRT 11.4.0, and here is TensorRT 11.5.0",
            ),
            (
                check(&good, b"engine", b"graph", "TensorRT 11.4.0", Capability(9, 0)),
                "8.9 and 12.0, and this GPU has 9.0",
            ),
        ];
        for (found, text) in refused {
            assert!(found.as_ref().unwrap_err().contains(text), "{found:?}");
        }
        let many = EngineCard { batch: Batch { least: 4, usual: 4, most: 4 }, ..card() };
        assert!(check(&many, b"engine", b"graph", "TensorRT 11.4.0", here).is_err());
    }

    #[test]
    fn a_description_reads_back_and_its_absence_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let engine = folder.path().join("step-fp16.engine");
        let error = EngineCard::load(&engine).unwrap_err();
        assert!(error.to_string().contains("step-fp16.engine.json"), "{error}");
        card().save(&engine).unwrap();
        assert_eq!(EngineCard::load(&engine).unwrap(), card());
    }
}
