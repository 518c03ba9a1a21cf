//! The forecast as an iterator.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::field::{Layout, State};
use crate::stepper::{Stepper, StepperInfo};
use crate::variable::Quantity;

/// A forecast under way: item 0 is the analysis, item `n` the state after `n` steps. Only the state of the stepper is
/// held. After an error there is nothing more.
pub struct Rollout<'a, S: Stepper> {
    stepper: &'a mut S,
    inner: S::Inner,
    /// Items given so far.
    given: usize,
    steps: usize,
}

/// Starts a forecast of `steps` steps from `analyses`, oldest first; the last one is the initial time. Quantities that
/// the stepper does not know are left aside; one that it needs and does not find, another grid, or analyses that are
/// not its step apart are refused.
pub fn rollout<'a, S: Stepper>(
    stepper: &'a mut S,
    analyses: &[State],
    steps: usize,
) -> Result<Rollout<'a, S>> {
    let arranged = arrange(stepper.info(), analyses)?;
    let inner = stepper.start(&arranged)?;
    Ok(Rollout { stepper, inner, given: 0, steps })
}

impl<S: Stepper> Rollout<'_, S> {
    /// What who reads the forecast has to know of how it was made so far.
    pub fn remarks(&self) -> Vec<String> {
        self.stepper.remarks(&self.inner)
    }

    fn next_state(&mut self) -> Result<State> {
        if self.given > 0 {
            self.stepper.step(&mut self.inner)?;
        }
        self.stepper.observe(&self.inner)
    }
}

impl<S: Stepper> Iterator for Rollout<'_, S> {
    type Item = Result<State>;

    fn next(&mut self) -> Option<Result<State>> {
        if self.given > self.steps {
            return None;
        }
        let state = self.next_state();
        self.given = if state.is_ok() { self.given + 1 } else { self.steps + 1 };
        Some(state)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.steps + 1).saturating_sub(self.given);
        (left.min(1), Some(left))
    }
}

/// The analyses in the stepper's own layout, or what is wrong with them.
fn arrange(info: &StepperInfo, analyses: &[State]) -> Result<Vec<State>> {
    if analyses.len() != info.input_frames {
        return Err(Error::input(format!(
            "{} starts from {} analyses, and there are {}",
            info.name,
            info.input_frames,
            analyses.len()
        )));
    }
    for pair in analyses.windows(2) {
        let spacing = pair[1].valid.since(pair[0].valid);
        if pair[0].valid.calendar != pair[1].valid.calendar || spacing != info.step {
            return Err(Error::input(format!(
                "{} steps by {}, and the analyses of {} and {} are {spacing} apart",
                info.name, info.step, pair[0].valid, pair[1].valid
            ))
            .hint("a model forecasts only at the time step that it was trained on"));
        }
    }
    let mut arranged = Vec::with_capacity(analyses.len());
    for state in analyses {
        check_layout(info, &state.layout)?;
        let state = if Arc::ptr_eq(&state.layout, &info.layout) || *state.layout == *info.layout {
            State { layout: info.layout.clone(), ..state.clone() }
        } else {
            state.arranged(&info.layout)?
        };
        check_values(&state)?;
        arranged.push(state);
    }
    Ok(arranged)
}

/// Refuses data that lack a variable of the stepper or lie on another grid, and says which.
pub(super) fn check_layout(info: &StepperInfo, found: &Layout) -> Result<()> {
    let missing: Vec<String> = info
        .layout
        .quantities
        .iter()
        .filter(|q| !found.quantities.contains(q))
        .map(Quantity::to_string)
        .collect();
    if !missing.is_empty() {
        let there: Vec<String> = found.quantities.iter().map(Quantity::to_string).collect();
        return Err(Error::input(format!(
            "{} needs {}, and the input has only {}",
            info.name,
            missing.join(", "),
            there.join(", ")
        ))
        .hint("give files that hold all variables and levels that the model was trained on"));
    }
    if !found.grid.matches(&info.layout.grid) {
        return Err(Error::input(format!(
            "{} works on the grid {}, and the input lies on {}",
            info.name,
            info.layout.grid.describe(),
            found.grid.describe()
        ))
        .hint("give files on the grid that the model was trained on"));
    }
    Ok(())
}

/// A quantity without a single value cannot start a forecast.
fn check_values(state: &State) -> Result<()> {
    for (channel, quantity) in state.layout.quantities.iter().enumerate() {
        if state.channel(channel).iter().all(|v| v.is_nan()) {
            return Err(Error::input(format!("the analysis of {} has no value of {quantity}", state.valid)));
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::grid::Grid;
    use crate::time::{Calendar, LeadTime, ValidTime};

    /// Adds 1 to everything at each step.
    pub struct Counter {
        pub info: StepperInfo,
        pub started: usize,
    }

    impl Counter {
        pub fn new(input_frames: usize) -> Self {
            let info = StepperInfo {
                name: "counter".into(),
                origin: "a test".into(),
                layout: layout(&["msl", "z500"]),
                step: LeadTime::from_hours(6),
                input_frames,
            };
            Self { info, started: 0 }
        }
    }

    impl Stepper for Counter {
        type Inner = State;

        fn info(&self) -> &StepperInfo {
            &self.info
        }

        fn start(&mut self, analyses: &[State]) -> Result<State> {
            self.started += 1;
            analyses.last().cloned().ok_or_else(|| Error::run("nothing to start from"))
        }

        fn step(&mut self, inner: &mut State) -> Result<()> {
            inner.valid = inner.valid.after(self.info.step);
            inner.values += 1.0;
            if inner.values[[0, 0, 0]] > 100.0 { Err(Error::run("blew up")) } else { Ok(()) }
        }

        fn observe(&self, inner: &State) -> Result<State> {
            Ok(inner.clone())
        }
    }

    pub fn layout(labels: &[&str]) -> Arc<Layout> {
        let grid = Grid::new(vec![40.0, 50.0], vec![0.0, 10.0, 20.0]).unwrap();
        Arc::new(Layout { grid, quantities: labels.iter().map(|l| Quantity::parse(l)).collect() })
    }

    /// `hour` after 2009-01-01; channel k holds the value `10 k`.
    pub fn analysis(labels: &[&str], hour: i64) -> State {
        let start = ValidTime::parse("2009-01-01", Calendar::Standard).unwrap();
        let mut state = State::missing(layout(labels), start.after(LeadTime::from_hours(hour)));
        state.values.indexed_iter_mut().for_each(|((_, _, k), v)| *v = 10.0 * k as f32);
        state
    }

    #[test]
    fn item_0_is_the_analysis_and_an_error_ends_the_forecast() {
        let mut stepper = Counter::new(1);
        let states: Vec<State> =
            rollout(&mut stepper, &[analysis(&["msl", "z500"], 0)], 3).unwrap().map(Result::unwrap).collect();
        assert_eq!(states.len(), 4);
        assert_eq!(states[0].values, analysis(&["msl", "z500"], 0).values);
        assert_eq!(states[3].valid.to_string(), "2009-01-01T18:00Z");
        assert_eq!(states[3].values[[1, 2, 1]], 13.0);

        let mut items = rollout(&mut stepper, &[analysis(&["msl", "z500"], 0)], 500).unwrap();
        assert!(items.by_ref().take_while(Result::is_ok).count() > 90);
        assert!(items.next().is_none());
    }

    #[test]
    fn other_orders_are_arranged_and_what_does_not_match_is_named() {
        let mut stepper = Counter::new(2);
        let [early, late] = [0, 6].map(|h| analysis(&["t850", "z500", "msl"], h));
        let first = rollout(&mut stepper, &[early, late], 1).unwrap().next().unwrap().unwrap();
        assert_eq!(first.values[[0, 0, 0]], 20.0, "msl was the third channel");
        assert_eq!(first.values[[0, 0, 1]], 10.0, "z500 was the second");

        let mut refuse = |analyses: &[State]| rollout(&mut stepper, analyses, 1).err().unwrap().to_string();
        let whole = |hour| analysis(&["msl", "z500"], hour);
        assert!(refuse(&[whole(0)]).contains("2 analyses, and there are 1"));
        assert!(refuse(&[whole(0), whole(24)]).contains("1d apart"));
        let text = refuse(&[analysis(&["msl"], 0), analysis(&["msl"], 6)]);
        assert!(text.contains("needs z500") && text.contains("only msl"), "{text}");
        let mut moved = [whole(0), whole(6)];
        for state in &mut moved {
            let grid = Grid::new(vec![45.0, 55.0], vec![0.0, 10.0, 20.0]).unwrap();
            state.layout = Arc::new(Layout { grid, ..(*state.layout).clone() });
        }
        assert!(refuse(&moved).contains("45N..55N"));
        let mut empty = [whole(0), whole(6)];
        empty[1].values.index_axis_mut(ndarray::Axis(2), 1).fill(f32::NAN);
        assert!(refuse(&empty).contains("no value of z500"));
    }
}
