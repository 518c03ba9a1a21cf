//! What ranks of several processes say to each other, as bytes of a stream: length, kind, content, all numbers little-endian.

use std::io::{Read, Write};

use super::hub::Failure;
use super::meeting::{Bytes, Parcel};
use crate::error::{Context, Error, Kind, Result};

/// One thing said.
#[derive(Debug, Clone)]
pub(super) enum Frame {
    /// A rank's first word.
    Hello {
        token: String,
        rank: usize,
        size: usize,
    },
    /// To every rank, when all have come.
    Welcome,
    Exchange {
        group: String,
        round: u64,
        rank: usize,
        size: usize,
        what: String,
        parcel: Parcel,
    },
    /// What an exchange gave.
    Pieces(Vec<Bytes>),
    Failed(Failure),
    /// A rank's last word.
    Bye,
}

/// What a stream begins with: another program at the same port, or another version, is told from a rank.
const MAGIC: &[u8; 8] = b"wxsim-1\n";

/// A frame beyond this is none [bytes].
const MOST: u64 = 1 << 40;

impl Frame {
    pub fn write(&self, stream: &mut impl Write) -> Result<()> {
        let mut content = Vec::new();
        self.encode(&mut content);
        let head = [MAGIC.as_slice(), &(content.len() as u64).to_le_bytes()].concat();
        let sent = stream.write_all(&head).and_then(|()| stream.write_all(&content));
        sent.and_then(|()| stream.flush()).context(|| "a rank cannot be reached".into())
    }

    /// The next frame; an error where the stream has ended.
    pub fn read(stream: &mut impl Read) -> Result<Self> {
        let mut head = [0; 16];
        stream.read_exact(&mut head).context(|| "the connection has ended".into())?;
        let length = u64::from_le_bytes([8, 9, 10, 11, 12, 13, 14, 15].map(|i| head[i]));
        if head[..8] != *MAGIC || length > MOST {
            return Err(nonsense());
        }
        let mut content = Vec::new();
        let read = stream.take(length).read_to_end(&mut content);
        read.context(|| "the connection has ended".into())?;
        if content.len() as u64 != length {
            return Err(Error::run("the connection has ended in the middle of a sentence"));
        }
        let mut rest = Rest(&content);
        let frame = Self::decode(&mut rest)?;
        if rest.0.is_empty() { Ok(frame) } else { Err(nonsense()) }
    }

    fn encode(&self, to: &mut Vec<u8>) {
        match self {
            Self::Hello { token, rank, size } => {
                to.push(0);
                text(to, token);
                number(to, *rank);
                number(to, *size);
            }
            Self::Welcome => to.push(1),
            Self::Exchange { group, round, rank, size, what, parcel } => {
                to.push(2);
                text(to, group);
                number(to, *round as usize);
                number(to, *rank);
                number(to, *size);
                text(to, what);
                match parcel {
                    Parcel::ForAll(piece) => {
                        to.push(0);
                        bytes(to, piece);
                    }
                    Parcel::ForEach(pieces) => {
                        to.push(1);
                        list(to, pieces);
                    }
                }
            }
            Self::Pieces(pieces) => {
                to.push(3);
                list(to, pieces);
            }
            Self::Failed(failure) => {
                to.push(4);
                number(to, failure.rank.map_or(0, |rank| rank + 1));
                to.push(match failure.kind {
                    Kind::Input => 0,
                    Kind::Run => 1,
                    Kind::Gate => 2,
                    Kind::Interrupted => 3,
                });
                text(to, &failure.message);
                text(to, failure.hint.as_deref().unwrap_or_default());
            }
            Self::Bye => to.push(5),
        }
    }

    fn decode(from: &mut Rest<'_>) -> Result<Self> {
        Ok(match from.byte()? {
            0 => Self::Hello { token: from.text()?, rank: from.number()?, size: from.number()? },
            1 => Self::Welcome,
            2 => Self::Exchange {
                group: from.text()?,
                round: from.number()? as u64,
                rank: from.number()?,
                size: from.number()?,
                what: from.text()?,
                parcel: match from.byte()? {
                    0 => Parcel::ForAll(from.bytes()?.into()),
                    _ => Parcel::ForEach(from.list()?),
                },
            },
            3 => Self::Pieces(from.list()?),
            4 => Self::Failed(Failure {
                rank: from.number()?.checked_sub(1),
                kind: match from.byte()? {
                    0 => Kind::Input,
                    2 => Kind::Gate,
                    3 => Kind::Interrupted,
                    _ => Kind::Run,
                },
                message: from.text()?,
                hint: Some(from.text()?).filter(|hint| !hint.is_empty()),
            }),
            5 => Self::Bye,
            _ => return Err(nonsense()),
        })
    }
}

fn nonsense() -> Error {
    Error::run("what came is not from a rank of this version of wxsim")
}

fn number(to: &mut Vec<u8>, number: usize) {
    to.extend((number as u64).to_le_bytes());
}

fn bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    number(to, bytes.len());
    to.extend(bytes);
}

fn text(to: &mut Vec<u8>, text: &str) {
    bytes(to, text.as_bytes());
}

fn list(to: &mut Vec<u8>, pieces: &[Bytes]) {
    number(to, pieces.len());
    pieces.iter().for_each(|piece| bytes(to, piece));
}

/// What has not been read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(nonsense)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn number(&mut self) -> Result<usize> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.take(8)?);
        usize::try_from(u64::from_le_bytes(bytes)).map_err(|_| nonsense())
    }

    fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.number()?;
        self.take(length)
    }

    fn text(&mut self) -> Result<String> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| nonsense())
    }

    fn list(&mut self) -> Result<Vec<Bytes>> {
        let count = self.number()?;
        // Each piece takes at least its length.
        if count > self.0.len() / 8 {
            return Err(nonsense());
        }
        (0..count).map(|_| self.bytes().map(Bytes::from)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_and_nonsense_is_refused() {
        let piece = |text: &str| Bytes::from(text.as_bytes());
        let failure = Failure {
            rank: Some(3),
            kind: Kind::Input,
            message: "torn".into(),
            hint: Some("mend it".into()),
        };
        let exchange = |parcel| Frame::Exchange {
            group: "all/1.0".into(),
            round: 7,
            rank: 2,
            size: 5,
            what: "barrier".into(),
            parcel,
        };
        let frames = [
            Frame::Hello { token: "t".into(), rank: 2, size: 5 },
            Frame::Welcome,
            exchange(Parcel::ForAll(piece("abc"))),
            exchange(Parcel::ForEach(vec![piece("a"), piece(""), piece("bcd")])),
            Frame::Pieces(vec![piece("xy"), piece("")]),
            Frame::Failed(failure),
            Frame::Failed(Failure { rank: None, kind: Kind::Run, message: "late".into(), hint: None }),
            Frame::Bye,
        ];
        for frame in frames {
            let mut bytes = Vec::new();
            frame.write(&mut bytes).unwrap();
            let again = Frame::read(&mut bytes.as_slice()).unwrap();
            assert_eq!(format!("{again:?}"), format!("{frame:?}"));
            for end in 0..bytes.len() {
                assert!(Frame::read(&mut &bytes[..end]).is_err(), "{frame:?} cut at {end}");
            }
        }
        // Another program, a length of nonsense, a list longer than its content.
        assert!(Frame::read(&mut b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".as_slice()).is_err());
        let long = [MAGIC.as_slice(), &u64::MAX.to_le_bytes()].concat();
        assert!(Frame::read(&mut long.as_slice()).is_err());
        let list = [MAGIC.as_slice(), &9_u64.to_le_bytes(), &[3], &u64::MAX.to_le_bytes()].concat();
        assert!(Frame::read(&mut list.as_slice()).is_err());
    }
}
