//! A forecast whose provider breaks goes on with the next one: nothing is published twice or lost, and the file says so.

mod made;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use made::kinds;
use wxsim::device::cpu::Cpu;
use wxsim::error::{Error, Result};
use wxsim::export::Trained;
use wxsim::field::State;
use wxsim::forecast::{FileSink, forecast_all};
use wxsim::io::forecast_file::ForecastHead;
use wxsim::runner::{Candidate, KEEP_EVERY, Kept, Native, NetworkStepper, Provider};
use wxsim::stepper::Stepper;
use wxsim::time::{InitTime, ValidTime};

/// How a link breaks.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// It does not open: a library is missing, an engine is for another card.
    Open,
    /// There is no memory for its first step.
    Start,
    /// It is lost in this step, and its state with it.
    Step(usize),
    /// It is lost when its state is to be copied.
    Keep,
    /// It is lost while its state is on its way.
    Copy,
    /// It lasts.
    Never,
}

/// A provider that works like wxsim's own until it breaks for good.
struct Fragile {
    inner: Native,
    fault: Fault,
    steps: usize,
    /// Steps that a copy takes to arrive, and after how many steps the one under way does.
    lag: usize,
    arrival: usize,
    broken: bool,
    /// Steps done by anyone.
    count: Arc<AtomicUsize>,
}

impl Fragile {
    fn check(&mut self, breaks: bool) -> Result<()> {
        self.broken |= breaks;
        if self.broken { Err(Error::run("the device is lost").hint("restart it")) } else { Ok(()) }
    }
}

impl Provider for Fragile {
    fn describe(&self) -> String {
        "fragile".into()
    }

    fn start(&mut self, analyses: &[State]) -> Result<()> {
        self.check(matches!(self.fault, Fault::Start))?;
        self.inner.start(analyses)
    }

    fn step(&mut self, from: ValidTime) -> Result<()> {
        self.steps += 1;
        self.count.fetch_add(1, Ordering::Relaxed);
        self.inner.step(from)
    }

    // As on a GPU, a step that failed is noticed when its result is asked for.
    fn state(&mut self, valid: ValidTime) -> Result<State> {
        self.check(matches!(self.fault, Fault::Step(step) if step <= self.steps))?;
        self.inner.state(valid)
    }

    fn keep(&mut self, valid: ValidTime) -> Result<()> {
        self.check(matches!(self.fault, Fault::Keep))?;
        self.arrival = self.steps + self.lag;
        self.inner.keep(valid)
    }

    fn kept(&mut self, wait: bool) -> Result<Option<Kept>> {
        self.check(matches!(self.fault, Fault::Copy))?;
        if self.steps < self.arrival && !wait {
            return Ok(None);
        }
        self.inner.kept(wait)
    }

    fn resume(&mut self, kept: &Kept, valid: ValidTime) -> Result<()> {
        self.check(false)?;
        self.inner.resume(kept, valid)
    }
}

fn native(trained: Arc<Trained>) -> Result<Native> {
    Native::new(trained, Box::new(Cpu::new(Some(1))?))
}

fn fragile(fault: Fault, count: &Arc<AtomicUsize>) -> Candidate {
    slow(fault, 0, count)
}

/// As [`fragile`], with copies that take `lag` steps to arrive.
fn slow(fault: Fault, lag: usize, count: &Arc<AtomicUsize>) -> Candidate {
    let count = count.clone();
    let open = move |trained| {
        if matches!(fault, Fault::Open) {
            return Err(Error::run("libnvinfer is not installed").hint("install it"));
        }
        Ok(Box::new(Fragile {
            inner: native(trained)?,
            fault,
            steps: 0,
            lag,
            arrival: 0,
            broken: false,
            count,
        }) as _)
    };
    Candidate { name: format!("{fault:?}"), open: Box::new(open) }
}

fn sound() -> Candidate {
    Candidate { name: "cpu".into(), open: Box::new(|trained| Ok(Box::new(native(trained)?) as _)) }
}

fn trained(kind: &made::Kind, folder: &Path) -> Arc<Trained> {
    let path = folder.join("step-1");
    kind.save(&path);
    Arc::new(Trained::open(&path).unwrap())
}

/// The states of a forecast, and what was remarked.
fn forecast(stepper: &mut NetworkStepper, analyses: &[State], steps: usize) -> (Vec<State>, Vec<String>) {
    let mut forecast = stepper.start(analyses).unwrap();
    let mut states = Vec::new();
    for _ in 0..steps {
        stepper.step(&mut forecast).unwrap();
        states.push(stepper.observe(&forecast).unwrap());
    }
    let remarks = stepper.remarks(&forecast);
    (states, remarks)
}

const STEPS: usize = 2 * KEEP_EVERY + 3;

#[test]
fn whichever_link_breaks_and_whenever_the_forecast_is_the_same_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    for kind in kinds() {
        let trained = trained(&kind, folder.path());
        let analyses = kind.analyses();
        let whole = &mut NetworkStepper::with_providers(trained.clone(), vec![sound()]).unwrap();
        let (expected, none) = forecast(whole, &analyses, STEPS);
        assert!(none.is_empty());
        let faults = [
            Fault::Open,
            Fault::Start,
            Fault::Step(1),
            Fault::Step(KEEP_EVERY + 2),
            Fault::Step(STEPS),
            Fault::Keep,
            Fault::Copy,
        ];
        for fault in faults {
            let count = Arc::default();
            let links = vec![fragile(fault, &count), sound()];
            let mut chain = NetworkStepper::with_providers(trained.clone(), links).unwrap();
            let (found, remarks) = forecast(&mut chain, &analyses, STEPS);
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!(found.valid, expected.valid);
                let same = found.values.iter().zip(&expected.values).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{}, {fault:?}, {}", kind.name, found.valid);
            }
            match fault {
                Fault::Open => {
                    assert!(remarks.is_empty());
                    assert!(chain.refusals()[0].contains("libnvinfer is not installed; install it"));
                }
                _ => {
                    assert_eq!(remarks.len(), 1, "{remarks:?}");
                    assert!(remarks[0].contains("because fragile failed: the device is lost"), "{remarks:?}");
                }
            }
            // The next forecast does not try the broken one again.
            assert!(forecast(&mut chain, &analyses, 1).1.is_empty());
        }
    }
}

#[test]
fn a_copy_on_its_way_is_not_waited_for_and_the_one_before_it_serves() {
    let folder = tempfile::tempdir().unwrap();
    let kind = &kinds()[0];
    let trained = trained(kind, folder.path());
    let whole = &mut NetworkStepper::with_providers(trained.clone(), vec![sound()]).unwrap();
    let (expected, _) = forecast(whole, &kind.analyses(), STEPS);
    // Copies of steps 2, 5 and 8 arrive at 5, 8 and 11.
    for (breaks, resumes) in [(4, 0), (5, 0), (6, 2), (8, 2), (9, 5)] {
        let (count, rest) = (Arc::default(), Arc::default());
        let links = vec![slow(Fault::Step(breaks), 3, &count), fragile(Fault::Never, &rest)];
        let mut chain = NetworkStepper::with_providers(trained.clone(), links).unwrap().keeping_every(2);
        let (found, remarks) = forecast(&mut chain, &kind.analyses(), STEPS);
        assert!(found.iter().zip(&expected).all(|(a, b)| a.values == b.values), "broken in step {breaks}");
        assert_eq!((remarks.len(), count.load(Ordering::Relaxed)), (1, breaks));
        assert_eq!(rest.load(Ordering::Relaxed), STEPS - resumes, "broken in step {breaks}");
    }
}

#[test]
fn two_that_break_one_after_the_other_are_followed_by_a_third() {
    let folder = tempfile::tempdir().unwrap();
    let kind = &kinds()[0];
    let trained = trained(kind, folder.path());
    let count = Arc::default();
    let links = vec![
        fragile(Fault::Step(3), &count),
        fragile(Fault::Open, &count),
        fragile(Fault::Step(KEEP_EVERY + 1), &count),
        sound(),
    ];
    let mut chain = NetworkStepper::with_providers(trained, links).unwrap();
    let (states, remarks) = forecast(&mut chain, &kind.analyses(), STEPS);
    assert_eq!((states.len(), remarks.len(), chain.refusals().len()), (STEPS, 2, 1));
    // Three steps, and from the analysis again until the fifth of its own.
    assert_eq!(count.load(Ordering::Relaxed), 3 + KEEP_EVERY + 1);
}

#[test]
fn the_last_link_says_why_it_broke() {
    let folder = tempfile::tempdir().unwrap();
    let kind = &kinds()[1];
    let trained = trained(kind, folder.path());
    let count = Arc::default();
    let links = || vec![fragile(Fault::Open, &count), fragile(Fault::Step(2), &count)];
    let mut chain = NetworkStepper::with_providers(trained.clone(), links()).unwrap();
    let mut forecast = chain.start(&kind.analyses()).unwrap();
    chain.step(&mut forecast).unwrap();
    let error = chain.step(&mut forecast).unwrap_err();
    assert_eq!((error.to_string(), error.advice()), ("the device is lost".into(), Some("restart it")));
    let none = NetworkStepper::with_providers(trained, vec![fragile(Fault::Open, &count)]);
    assert_eq!(none.err().unwrap().to_string(), "libnvinfer is not installed");
}

#[test]
fn the_file_of_a_forecast_that_changed_hands_says_so_and_holds_each_lead_once() {
    let folder = tempfile::tempdir().unwrap();
    let kind = &kinds()[2];
    let trained = trained(kind, folder.path());
    let analyses = kind.analyses();
    let init = InitTime(analyses[analyses.len() - 1].valid);
    let head = ForecastHead {
        layout: trained.info.layout.clone(),
        orientation: trained.orientation,
        units: Vec::new(),
        init,
        step: trained.info.step,
        steps: STEPS,
        model: "convlstm".into(),
        origin: "a test".into(),
        history: "cargo test".into(),
    };
    let links = vec![fragile(Fault::Step(KEEP_EVERY + 1), &Arc::default()), sound()];
    let mut chain = NetworkStepper::with_providers(trained, links).unwrap();
    let mut sink = FileSink::new(&folder.path().join("out"), head);
    forecast_all(&mut chain, &[init], |_| Ok(analyses.clone()), STEPS, &mut sink).unwrap();
    let file = netcdf::open(&sink.written()[0]).unwrap();
    let Ok(netcdf::AttributeValue::Str(comment)) = file.attribute("comment").unwrap().value() else {
        panic!("there is no comment")
    };
    assert!(comment.contains("from a lead of 30h on, because fragile failed"), "{comment}");
    assert_eq!(file.dimension("time").unwrap().len(), STEPS + 1);
}
