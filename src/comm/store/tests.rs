use super::*;
use crate::comm::{Communicator, Host, run_one};
use crate::error::chain;

const LIMIT: Duration = Duration::from_secs(20);

/// A port that nobody uses now.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("127.0.0.1:{}", listener.local_addr().unwrap().port())
}

fn place(rank: usize, size: usize, address: &str) -> Place {
    Place { rank, size, local: rank, address: address.into(), token: "job".into(), by: "a test" }
}

/// What each of these ranks comes to.
fn on<R: Send>(
    places: Vec<Place>,
    limit: Duration,
    work: impl Fn(Box<dyn Meeting>) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    let work = &work;
    std::thread::scope(|scope| {
        let start = |place: Place| scope.spawn(move || run_one(join(&place, limit)?, work));
        let threads: Vec<_> = places.into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn all(size: usize) -> Vec<Place> {
    let address = free_address();
    (0..size).map(|rank| place(rank, size, &address)).collect()
}

fn total(host: &mut Host, mut values: Vec<f64>) -> Result<Vec<f64>> {
    Communicator::<f64>::total(host, &mut values)?;
    Ok(values)
}

#[test]
fn processes_exchange_and_split_as_threads_do() {
    let found = on(all(4), LIMIT, |mut meeting| {
        let own = meeting.rank();
        let mut half = Host::new(meeting.split(own % 2)?);
        let mut host = Host::new(meeting);
        let sums = [total(&mut host, vec![own as f64, 1.0])?, total(&mut half, vec![own as f64, 1.0])?];
        Communicator::<f64>::close(Box::new(host))?;
        Ok((own, sums))
    });
    for found in found {
        let (own, sums) = found.unwrap();
        assert_eq!(sums, [vec![6.0, 4.0], vec![if own % 2 == 0 { 2.0 } else { 4.0 }, 2.0]]);
    }
}

#[test]
fn one_process_that_fails_takes_the_others_down_with_its_reason() {
    for culprit in [0, 2] {
        let start = Instant::now();
        let found = on(all(3), LIMIT, |meeting| {
            if meeting.rank() == culprit {
                return Err(Error::input("t2m.nc is torn").hint("copy it again"));
            }
            total(&mut Host::new(meeting), vec![1.0])
        });
        for (rank, error) in found.into_iter().enumerate() {
            let error = error.unwrap_err();
            assert_eq!(chain(&error), format!("rank {culprit}: t2m.nc is torn"), "rank {rank}");
            assert_eq!((error.kind(), error.advice()), (Kind::Input, Some("copy it again")));
        }
        assert!(start.elapsed() < LIMIT, "nobody waits for the limit");
    }
}

#[test]
fn a_process_that_vanishes_is_named() {
    // One rank speaks for itself, and hangs up without a word, as one that is killed does.
    let mut places = all(3);
    let killed = places.remove(1);
    let vanish = std::thread::spawn(move || {
        let stream = loop {
            match TcpStream::connect(&killed.address) {
                Ok(stream) => break stream,
                Err(_) => std::thread::sleep(PAUSE),
            }
        };
        Frame::Hello { token: killed.token, rank: 1, size: 3 }.write(&mut &stream).unwrap();
        assert!(matches!(Frame::read(&mut &stream).unwrap(), Frame::Welcome));
    });
    let found = on(places, LIMIT, |meeting| total(&mut Host::new(meeting), vec![1.0]));
    vanish.join().unwrap();
    for error in found {
        let text = error.unwrap_err().to_string();
        assert!(text.starts_with("rank 1 is gone: "), "{text}");
    }
}

#[test]
fn who_does_not_come_to_the_meeting_is_named() {
    let limit = Duration::from_millis(600);
    let mut places = all(4);
    places.remove(2);
    let found = on(places, limit, |meeting| Ok(meeting.rank()));
    for error in found {
        let text = error.unwrap_err().to_string();
        assert!(text.starts_with("rank 2 of 4 did not come to 127.0.0.1:"), "{text}");
    }
    // Nobody at all.
    let error = join(&place(1, 2, &free_address()), limit).err().unwrap();
    assert!(error.to_string().starts_with("rank 0 did not answer at 127.0.0.1:"), "{error}");
}

#[test]
fn strangers_are_sent_away_and_disturb_nobody() {
    let mut places = all(2);
    let address = places[0].address.clone();
    let twice = places[1].clone();
    places.push(Place { token: "another job".into(), ..twice.clone() });
    places.push(Place { size: 3, rank: 2, ..twice });
    let browser = std::thread::spawn(move || {
        use std::io::Write;
        std::thread::sleep(Duration::from_millis(100));
        if let Ok(mut stream) = TcpStream::connect(address) {
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        }
    });
    let found = on(places, LIMIT, |meeting| total(&mut Host::new(meeting), vec![1.0]));
    browser.join().unwrap();
    assert_eq!(found[0].as_ref().unwrap(), &[2.0]);
    assert_eq!(found[1].as_ref().unwrap(), &[2.0]);
    for stranger in &found[2..] {
        assert!(stranger.is_err());
    }
}
