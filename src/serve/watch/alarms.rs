//! What is wrong at the moment: each alarm is told once when it is raised and once when it is over, in the log and to a web
//! address.

use std::collections::BTreeMap;
use std::time::Duration;

use crossbeam_channel::{Sender, unbounded};
use serde::Serialize;

use crate::error::{Context, Result};
use crate::serve::events::Level;
use crate::serve::ledger::now;

/// The longest that a web address may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A bound that is not kept.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Alarm {
    pub name: String,
    pub text: String,
    /// [ms since 1970]
    pub since: i64,
}

/// What a web address is told, as JSON.
#[derive(Debug, Clone, Serialize)]
struct Notice {
    service: &'static str,
    alarm: Alarm,
    raised: bool,
}

/// Writes a line into the log.
pub type Say = Box<dyn Fn(Level, &str) + Send>;

pub struct Alarms {
    active: BTreeMap<String, Alarm>,
    say: Say,
    web: Option<Sender<Notice>>,
}

impl Alarms {
    /// `webhook` is posted to from a thread of its own.
    pub fn new(say: Say, webhook: Option<String>) -> Result<Self> {
        let web = webhook.map(post_to).transpose()?;
        Ok(Self { active: BTreeMap::new(), say, web })
    }

    /// Raises an alarm, changes its text, or ends it where there is none.
    pub fn set(&mut self, name: &str, text: Option<String>) {
        match (text, self.active.get_mut(name)) {
            (Some(text), Some(alarm)) => alarm.text = text,
            (Some(text), None) => {
                let alarm = Alarm { name: name.into(), text, since: now() };
                (self.say)(Level::Error, &format!("alarm {name}: {}", alarm.text));
                self.tell(&alarm, true);
                self.active.insert(name.into(), alarm);
            }
            (None, Some(_)) => {
                if let Some(alarm) = self.active.remove(name) {
                    (self.say)(Level::Info, &format!("alarm {name} is over"));
                    self.tell(&alarm, false);
                }
            }
            (None, None) => {}
        }
    }

    /// Ends the alarms of a model that is no longer served; gives their names.
    pub fn forget(&mut self, model: &str) -> Vec<String> {
        let ending = format!(" of {model}");
        let gone: Vec<String> = self.active.keys().filter(|name| name.ends_with(&ending)).cloned().collect();
        gone.iter().for_each(|name| self.set(name, None));
        gone
    }

    pub fn active(&self) -> Vec<Alarm> {
        self.active.values().cloned().collect()
    }

    fn tell(&self, alarm: &Alarm, raised: bool) {
        if let Some(web) = &self.web {
            let _ = web.send(Notice { service: "wxsim", alarm: alarm.clone(), raised });
        }
    }
}

/// Posts notices one after the other; one that cannot be posted is told on stderr and not tried again.
fn post_to(address: String) -> Result<Sender<Notice>> {
    let (sender, notices) = unbounded::<Notice>();
    let post = move || {
        let agent: ureq::Agent = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).build().into();
        for notice in notices {
            let body = serde_json::to_string(&notice).unwrap_or_default();
            let request = agent.post(&address).header("Content-Type", "application/json");
            // The address may hold a secret, and is not told.
            if let Err(error) = request.send(body) {
                eprintln!("warning: the webhook was not told of {}: {error}", notice.alarm.name);
            }
        }
    };
    std::thread::Builder::new()
        .name("webhook".into())
        .spawn(post)
        .context(|| "cannot start a thread".into())?;
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::sync::{Arc, Mutex};

    #[test]
    fn an_alarm_is_told_when_it_is_raised_and_when_it_is_over() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/hook", listener.local_addr().unwrap());
        let told = Arc::new(Mutex::new(Vec::new()));
        let log = told.clone();
        let say: Say = Box::new(move |_, text| log.lock().unwrap().push(text.to_string()));
        let mut alarms = Alarms::new(say, Some(address)).unwrap();
        alarms.set("drift", Some("far".into()));
        alarms.set("drift", Some("farther".into()));
        assert_eq!(alarms.active()[0].text, "farther");
        alarms.set("drift", None);
        alarms.set("drift", None);
        assert_eq!(*told.lock().unwrap(), ["alarm drift: far", "alarm drift is over"]);
        for raised in ["\"raised\":true", "\"raised\":false"] {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut text, mut piece) = (String::new(), [0; 1024]);
            while !text.contains("raised") {
                let count = stream.read(&mut piece).unwrap();
                text.push_str(&String::from_utf8_lossy(&piece[..count]));
            }
            assert!(text.starts_with("POST /hook") && text.contains(raised), "{text}");
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
        }
    }
}
