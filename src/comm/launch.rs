//! Which rank this process is, as whatever started it says: `WXSIM_*` variables, torchrun (and what imitates it, as operators
//! on Kubernetes do), Open MPI or Slurm.

use std::str::FromStr;

use crate::error::{Error, Result};

/// A process among others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub rank: usize,
    pub size: usize,
    /// Among the ranks of this machine: the number of its GPU.
    pub local: usize,
    /// Where rank 0 listens, `host:port`.
    pub address: String,
    /// What all ranks of one job share, and no other job.
    pub token: String,
    /// What said so.
    pub by: &'static str,
}

const PORT: u16 = 29_500;

/// The place of this process; `None` where it is the only one.
pub fn place() -> Result<Option<Place>> {
    find(&|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

/// Looks up variables by name.
type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

fn find(variables: Variables<'_>) -> Result<Option<Place>> {
    let starters = [wxsim, torchrun, open_mpi, slurm];
    for starter in starters {
        if let Some(place) = starter(variables)? {
            if place.rank >= place.size {
                return Err(Error::input(format!(
                    "{} says that this is rank {} of {}",
                    place.by, place.rank, place.size
                ))
                .hint("ranks are counted from 0"));
            }
            return Ok(Some(place).filter(|place| place.size > 1));
        }
    }
    Ok(None)
}

/// Given by hand.
fn wxsim(variables: Variables<'_>) -> Result<Option<Place>> {
    let Some(rank) = number(variables, "WXSIM_RANK")? else { return Ok(None) };
    let size = required(variables, "WXSIM_SIZE", "WXSIM_RANK")?;
    let local = number(variables, "WXSIM_LOCAL_RANK")?.unwrap_or(rank);
    let address = address(variables, || Ok(format!("127.0.0.1:{PORT}")))?;
    Ok(Some(Place { rank, size, local, address, token: token(variables, None), by: "WXSIM_RANK" }))
}

fn torchrun(variables: Variables<'_>) -> Result<Option<Place>> {
    let (Some(rank), Some(size)) = (number(variables, "RANK")?, number(variables, "WORLD_SIZE")?) else {
        return Ok(None);
    };
    let local = number(variables, "LOCAL_RANK")?.unwrap_or(0);
    let address = address(variables, || {
        let host = variables("MASTER_ADDR").ok_or_else(|| {
            Error::input("RANK and WORLD_SIZE are set, and MASTER_ADDR is not")
                .hint("set MASTER_ADDR to the host of rank 0, or unset RANK to train alone")
        })?;
        let port = number::<u16>(variables, "MASTER_PORT")?.unwrap_or(PORT);
        // There torchrun itself listens at that port.
        let taken = variables("TORCHELASTIC_USE_AGENT_STORE").is_some_and(|value| value == "True");
        Ok(format!("{host}:{}", if taken { port.wrapping_add(1) } else { port }))
    })?;
    let token = token(variables, variables("TORCHELASTIC_RUN_ID"));
    Ok(Some(Place { rank, size, local, address, token, by: "RANK" }))
}

fn open_mpi(variables: Variables<'_>) -> Result<Option<Place>> {
    let Some(rank) = number(variables, "OMPI_COMM_WORLD_RANK")? else { return Ok(None) };
    let size = required(variables, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK")?;
    let local = number(variables, "OMPI_COMM_WORLD_LOCAL_RANK")?.unwrap_or(0);
    let address = address(variables, || {
        if number(variables, "OMPI_COMM_WORLD_LOCAL_SIZE")? == Some(size) {
            return Ok(format!("127.0.0.1:{PORT}"));
        }
        Err(Error::input("Open MPI does not say on which machine rank 0 runs")
            .hint(format!("mpirun -x WXSIM_ADDRESS=HOST:{PORT} .., with the first host of the job")))
    })?;
    let job = variables("PMIX_NAMESPACE").or_else(|| variables("OMPI_MCA_ess_base_jobid"));
    Ok(Some(Place { rank, size, local, address, token: token(variables, job), by: "Open MPI" }))
}

/// A step of a job: the script of a job itself is no rank, though Slurm numbers it.
fn slurm(variables: Variables<'_>) -> Result<Option<Place>> {
    let (Some(size), Some(rank)) =
        (number(variables, "SLURM_STEP_NUM_TASKS")?, number(variables, "SLURM_PROCID")?)
    else {
        return Ok(None);
    };
    let local = number(variables, "SLURM_LOCALID")?.unwrap_or(0);
    let job = variables("SLURM_JOB_ID");
    let address = address(variables, || {
        let nodes = variables("SLURM_STEP_NODELIST").or_else(|| variables("SLURM_JOB_NODELIST"));
        let host = nodes.as_deref().and_then(first_node).ok_or_else(|| {
            Error::input("Slurm does not say on which machines the step runs")
                .hint(format!("set WXSIM_ADDRESS=HOST:{PORT}, with the first host of the job"))
        })?;
        // Another port for each job that may run on the same machine.
        let number: u64 = job.as_deref().and_then(|job| job.parse().ok()).unwrap_or(0);
        Ok(format!("{host}:{}", 20_000 + number % 10_000))
    })?;
    Ok(Some(Place { rank, size, local, address, token: token(variables, job), by: "Slurm" }))
}

/// The first of `node[003-007,012],other5`.
fn first_node(list: &str) -> Option<String> {
    let end = list.find([',', '[']).unwrap_or(list.len());
    let (prefix, rest) = list.split_at(end);
    let Some(inside) = rest.strip_prefix('[') else {
        return Some(prefix.to_owned()).filter(|p| !p.is_empty());
    };
    let number = inside.split([',', '-', ']']).next()?;
    let suffix = inside.split_once(']')?.1;
    let suffix = &suffix[..suffix.find(',').unwrap_or(suffix.len())];
    Some(format!("{prefix}{number}{suffix}"))
}

/// Given by hand, or as the starter has it.
fn address(variables: Variables<'_>, other: impl FnOnce() -> Result<String>) -> Result<String> {
    match variables("WXSIM_ADDRESS") {
        Some(address) if address.contains(':') => Ok(address),
        Some(host) => Ok(format!("{host}:{PORT}")),
        None => other(),
    }
}

fn token(variables: Variables<'_>, job: Option<String>) -> String {
    variables("WXSIM_TOKEN").or(job).unwrap_or_else(|| "wxsim".into())
}

fn number<N: FromStr>(variables: Variables<'_>, name: &str) -> Result<Option<N>> {
    let Some(value) = variables(name) else { return Ok(None) };
    value.trim().parse().map(Some).map_err(|_| Error::input(format!("{name}={value} is not a number")))
}

fn required(variables: Variables<'_>, name: &str, because: &str) -> Result<usize> {
    number(variables, name)?
        .ok_or_else(|| Error::input(format!("{because} is set, and {name} is not")).hint("set both or none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(set: &[(&str, &str)]) -> Result<Option<Place>> {
        find(&|name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    fn found(set: &[(&str, &str)]) -> (usize, usize, usize, String, String, &'static str) {
        let place = of(set).unwrap().unwrap();
        (place.rank, place.size, place.local, place.address, place.token, place.by)
    }

    #[test]
    fn every_starter_is_understood() {
        let own = [("WXSIM_RANK", "1"), ("WXSIM_SIZE", "2")];
        assert_eq!(found(&own), (1, 2, 1, "127.0.0.1:29500".into(), "wxsim".into(), "WXSIM_RANK"));
        let torchrun = [
            ("RANK", "5"),
            ("WORLD_SIZE", "8"),
            ("LOCAL_RANK", "1"),
            ("MASTER_ADDR", "node3"),
            ("MASTER_PORT", "4000"),
            ("TORCHELASTIC_RUN_ID", "job7"),
        ];
        assert_eq!(found(&torchrun), (5, 8, 1, "node3:4000".into(), "job7".into(), "RANK"));
        let with_store = [&torchrun[..], &[("TORCHELASTIC_USE_AGENT_STORE", "True")]].concat();
        assert_eq!(found(&with_store).3, "node3:4001");
        let mpi = [
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "3"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
        ];
        assert_eq!(found(&mpi), (3, 4, 3, "127.0.0.1:29500".into(), "wxsim".into(), "Open MPI"));
        let slurm = [
            ("SLURM_PROCID", "6"),
            ("SLURM_LOCALID", "2"),
            ("SLURM_STEP_NUM_TASKS", "8"),
            ("SLURM_STEP_NODELIST", "gpu[003-004]"),
            ("SLURM_JOB_ID", "1234567"),
        ];
        assert_eq!(found(&slurm), (6, 8, 2, "gpu003:24567".into(), "1234567".into(), "Slurm"));
        let by_hand = [&slurm[..], &[("WXSIM_ADDRESS", "10.0.0.1"), ("WXSIM_TOKEN", "secret")]].concat();
        assert_eq!((found(&by_hand).3, found(&by_hand).4), ("10.0.0.1:29500".into(), "secret".into()));
    }

    #[test]
    fn a_process_that_is_alone_is_no_rank() {
        assert_eq!(of(&[]).unwrap(), None);
        assert_eq!(of(&[("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", "a")]).unwrap(), None);
        // The script of a job, not a step.
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")]).unwrap(), None);
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let says = |set: &[(&str, &str)], text: &str| {
            let error = of(set).unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        };
        says(&[("WXSIM_RANK", "1")], "WXSIM_RANK is set, and WXSIM_SIZE is not");
        says(&[("WXSIM_RANK", "one"), ("WXSIM_SIZE", "2")], "WXSIM_RANK=one is not a number");
        says(&[("WXSIM_RANK", "2"), ("WXSIM_SIZE", "2")], "rank 2 of 2");
        says(&[("RANK", "0"), ("WORLD_SIZE", "2")], "MASTER_ADDR");
        says(&[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "4")], "on which machine rank 0 runs");
    }

    #[test]
    fn the_first_node_of_a_list_is_found() {
        for (list, first) in [
            ("a", "a"),
            ("a1,a2", "a1"),
            ("n[01-04,7]", "n01"),
            ("n[7,9-12]", "n7"),
            ("r[1-2]-ib,x", "r1-ib"),
            ("x,n[1-2]", "x"),
        ] {
            assert_eq!(first_node(list).as_deref(), Some(first), "{list}");
        }
        assert_eq!(first_node(""), None);
        assert_eq!(first_node("n[1"), None);
    }
}
