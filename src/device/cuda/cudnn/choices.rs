//! Which plan was the best for a convolution on this card, kept on disk.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use super::plan::{Found, Problem, Source};

/// What convolves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// A plan of cuDNN.
    Plan(Found),
    /// wxsim's own kernel.
    Own,
}

impl Choice {
    /// `A 3 62`: source, rank, engine.
    fn text(self) -> String {
        match self {
            Self::Own => "own".into(),
            Self::Plan(Found { source, rank, engine }) => format!("{} {rank} {engine}", letter(source)),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        if text == "own" {
            return Some(Self::Own);
        }
        let mut words = text.split(' ');
        let source = words.next()?;
        let source = Source::ALL.into_iter().find(|&s| letter(s) == source)?;
        Some(Self::Plan(Found {
            source,
            rank: words.next()?.parse().ok()?,
            engine: words.next()?.parse().ok()?,
        }))
    }
}

fn letter(source: Source) -> &'static str {
    match source {
        Source::Heuristic => "A",
        Source::Model => "B",
        Source::Fallback => "fallback",
    }
}

/// A problem in words, as the file names it.
fn name(problem: &Problem) -> String {
    let s = &problem.shape;
    format!(
        "{:?}{} {:?} {}x{}x{} {}->{} {}x{}",
        problem.direction,
        if problem.adds { "+" } else { "" },
        problem.storage,
        s.images,
        s.rows,
        s.columns,
        s.inputs,
        s.outputs,
        s.kernel,
        s.kernel
    )
}

/// The file of one card and one version of the library.
pub struct Choices {
    path: Option<PathBuf>,
    known: BTreeMap<String, String>,
    /// What counts more in this process, and is not written.
    preferred: BTreeMap<String, String>,
}

impl Choices {
    /// Those in the folder of the cache; none where there is no folder, or a file that cannot be read.
    pub fn read(folder: Option<PathBuf>, card: &str, version: usize) -> Self {
        let word: String = card
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
            .collect();
        let path = folder.map(|folder| folder.join(format!("convolutions-{word}-cudnn-{version}.json")));
        let text = path.as_ref().and_then(|path| fs::read_to_string(path).ok());
        let known = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        Self { path, known, preferred: BTreeMap::new() }
    }

    pub fn get(&self, problem: &Problem) -> Option<Choice> {
        Choice::parse(&self.told(problem)?.1)
    }

    /// A choice as the file has it.
    pub fn told(&self, problem: &Problem) -> Option<(String, String)> {
        let name = name(problem);
        let choice = self.preferred.get(&name).or_else(|| self.known.get(&name))?.clone();
        Some((name, choice))
    }

    /// Takes these choices, for this process alone.
    pub fn prefer(&mut self, told: &BTreeMap<String, String>) {
        self.preferred.clone_from(told);
    }

    /// Remembers a choice, here and on disk. A cache that is read-only or full costs the next start some seconds.
    pub fn put(&mut self, problem: &Problem, choice: Choice) {
        self.preferred.remove(&name(problem));
        self.known.insert(name(problem), choice.text());
        let _ = self.write();
    }

    fn write(&mut self) -> std::io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let Some(folder) = path.parent() else { return Ok(()) };
        fs::create_dir_all(folder)?;
        // Other processes may have measured other problems meanwhile.
        let there = fs::read_to_string(path).ok();
        let there: BTreeMap<String, String> =
            there.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        for (problem, choice) in there {
            self.known.entry(problem).or_insert(choice);
        }
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(serde_json::to_string_pretty(&self.known)?.as_bytes())?;
        file.persist(path)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Direction, Storage};
    use super::*;
    use crate::device::Convolution;

    fn problem(images: usize) -> Problem {
        let shape = Convolution { images, rows: 16, columns: 32, inputs: 128, outputs: 512, kernel: 5 };
        Problem { direction: Direction::Forward, shape, storage: Storage::Bfloat16, adds: true }
    }

    #[test]
    fn a_choice_is_found_again_by_another_process_and_for_no_other_problem() {
        let folder = tempfile::tempdir().unwrap();
        let open = |card| Choices::read(Some(folder.path().join("new")), card, 91_900);
        let plan = Choice::Plan(Found { source: Source::Fallback, rank: 7, engine: 62 });
        let mut first = open("NVIDIA H200");
        let mut second = open("NVIDIA H200");
        first.put(&problem(16), plan);
        second.put(&problem(1), Choice::Own);
        let third = open("NVIDIA H200");
        assert_eq!(third.get(&problem(16)), Some(plan));
        assert_eq!(third.get(&problem(1)), Some(Choice::Own));
        assert_eq!(third.get(&problem(2)), None);
        assert_eq!(third.get(&Problem { adds: false, ..problem(16) }), None);
        assert_eq!(open("NVIDIA H100").get(&problem(16)), None);
        // What a checkpoint tells counts more than the file.
        let mut resumed = open("NVIDIA H200");
        let told = third.told(&problem(1)).unwrap();
        resumed.prefer(&[third.told(&problem(16)).unwrap(), (told.0, "A 2 67".into())].into());
        let found = Found { source: Source::Heuristic, rank: 2, engine: 67 };
        assert_eq!(resumed.get(&problem(1)), Some(Choice::Plan(found)));
        assert_eq!(resumed.get(&problem(16)), Some(plan));
    }

    #[test]
    fn a_damaged_file_holds_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut choices = Choices::read(Some(folder.path().into()), "card", 1);
        choices.put(&problem(16), Choice::Own);
        let path = choices.path.clone().unwrap();
        for text in ["", "{", "[1]", "{\"Forward+ Bfloat16 16x16x32 128->512 5x5\": \"A x 1\"}"] {
            fs::write(&path, text).unwrap();
            assert_eq!(Choices::read(Some(folder.path().into()), "card", 1).get(&problem(16)), None);
        }
    }
}
