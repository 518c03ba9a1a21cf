//! Arrays in safetensors files with a few words beside them: decoded analyses and recurrent states.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::path::Path;

use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize};
use serde::Deserialize;

use crate::error::{Context, Error, Result};
use crate::io::atomic::write_whole;

/// Named arrays of numbers in single precision, and words.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arrays {
    /// Shape and values.
    pub arrays: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
    pub words: BTreeMap<String, String>,
}

impl Arrays {
    pub fn put(&mut self, name: impl Into<String>, shape: Vec<usize>, values: Vec<f32>) {
        self.arrays.insert(name.into(), (shape, values));
    }

    /// The values of an array of this size.
    pub fn take(&mut self, name: &str, size: usize) -> Result<Vec<f32>> {
        match self.arrays.remove(name) {
            Some((_, values)) if values.len() == size => Ok(values),
            Some((shape, _)) => {
                Err(Error::input(format!("'{name}' has the shape {shape:?}, where {size} numbers should be")))
            }
            None => Err(Error::input(format!("there is no '{name}'"))),
        }
    }

    /// Writes the file whole.
    pub fn write(&self, path: &Path) -> Result<()> {
        let wrong = |error| Error::run(format!("{} cannot be written", path.display())).caused_by(error);
        let bytes: BTreeMap<&str, Vec<u8>> = self
            .arrays
            .iter()
            .map(|(name, (_, values))| (name.as_str(), values.iter().flat_map(|x| x.to_le_bytes()).collect()))
            .collect();
        let mut views = Vec::with_capacity(bytes.len());
        for (name, (shape, _)) in &self.arrays {
            views.push((
                name,
                TensorView::new(Dtype::F32, shape.clone(), &bytes[name.as_str()]).map_err(wrong)?,
            ));
        }
        let words: HashMap<String, String> = self.words.clone().into_iter().collect();
        let file = serialize(views, Some(words)).map_err(wrong)?;
        write_whole(path, |out| out.write_all(&file).context(|| format!("cannot write {}", path.display())))
    }

    /// The words of a file alone, without reading its numbers.
    pub fn words_of(path: &Path) -> Result<BTreeMap<String, String>> {
        let cannot = || format!("cannot read {}", path.display());
        let mut file = std::fs::File::open(path).context(cannot)?;
        let mut length = [0; 8];
        file.read_exact(&mut length).context(cannot)?;
        // Of the header, which says its own length; more than there is would be damage.
        let header = u64::from_le_bytes(length).min(file.metadata().context(cannot)?.len());
        let mut bytes = Vec::new();
        file.take(header).read_to_end(&mut bytes).context(cannot)?;
        let header: Header = serde_json::from_slice(&bytes).map_err(|error| damaged(path, error))?;
        Ok(header.words)
    }

    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).context(|| format!("cannot read {}", path.display()))?;
        let wrong = |error| damaged(path, error);
        let (_, meta) = SafeTensors::read_metadata(&bytes).map_err(wrong)?;
        let words = meta.metadata().clone().unwrap_or_default().into_iter().collect();
        let tensors = SafeTensors::deserialize(&bytes).map_err(wrong)?;
        let mut arrays = BTreeMap::new();
        for (name, view) in tensors.tensors() {
            let values = view.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            arrays.insert(name, (view.shape().to_vec(), values.collect()));
        }
        Ok(Self { arrays, words })
    }
}

/// As the format has it (https://github.com/huggingface/safetensors): JSON, of which this is a part.
#[derive(Deserialize)]
struct Header {
    #[serde(rename = "__metadata__", default)]
    words: BTreeMap<String, String>,
}

fn damaged(path: &Path, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::run(format!("{} is damaged", path.display()))
        .caused_by(error)
        .hint("remove it: what it was made from has to arrive once more")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_and_words_come_back_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let mut arrays = Arrays::default();
        arrays.put("z500", vec![2, 1], vec![1.5, f32::NAN]);
        arrays.words.insert("valid".into(), "now".into());
        arrays.write(&path).unwrap();
        let mut back = Arrays::read(&path).unwrap();
        assert_eq!(back.words, arrays.words);
        assert_eq!(Arrays::words_of(&path).unwrap(), arrays.words);
        assert!(back.clone().take("z500", 3).is_err() && back.clone().take("t", 2).is_err());
        let values = back.take("z500", 2).unwrap();
        assert!(values[0] == 1.5 && values[1].is_nan());
        std::fs::write(&path, "nothing").unwrap();
        assert!(Arrays::read(&path).unwrap_err().to_string().contains("damaged"));
    }
}
