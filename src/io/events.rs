//! TensorBoard event files: TFRecord frames (length, payload, masked CRC-32C of both) around small protocol buffers.
//!
//! The formats are TensorFlow's `record_writer.h` and `event.proto`; only scalars are written.

use prost::Message;

/// One record of the file.
#[derive(Clone, PartialEq, Message)]
pub struct Event {
    /// Seconds since 1970.
    #[prost(double, tag = "1")]
    pub wall_time: f64,
    #[prost(int64, tag = "2")]
    pub step: i64,
    #[prost(string, optional, tag = "3")]
    pub file_version: Option<String>,
    #[prost(message, optional, tag = "5")]
    pub summary: Option<Summary>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Summary {
    #[prost(message, repeated, tag = "1")]
    pub value: Vec<Value>,
}

/// A scalar under a name.
#[derive(Clone, PartialEq, Message)]
pub struct Value {
    #[prost(string, tag = "1")]
    pub tag: String,
    #[prost(float, tag = "2")]
    pub simple_value: f32,
}

impl Event {
    /// The record that every file begins with.
    pub fn version(wall_time: f64) -> Self {
        Self { wall_time, file_version: Some("brain.Event:2".into()), ..Self::default() }
    }

    /// Scalars of one step.
    pub fn scalars(wall_time: f64, step: u64, scalars: &[(&str, f64)]) -> Self {
        let value =
            scalars.iter().map(|(tag, x)| Value { tag: (*tag).into(), simple_value: *x as f32 }).collect();
        let step = i64::try_from(step).unwrap_or(i64::MAX);
        Self { wall_time, step, file_version: None, summary: Some(Summary { value }) }
    }

    /// The framed record, ready to be appended to the file.
    pub fn frame(&self) -> Vec<u8> {
        let payload = self.encode_to_vec();
        let length = (payload.len() as u64).to_le_bytes();
        let mut frame = Vec::with_capacity(payload.len() + 16);
        frame.extend(length);
        frame.extend(masked(crc32c(&length)).to_le_bytes());
        frame.extend(&payload);
        frame.extend(masked(crc32c(&payload)).to_le_bytes());
        frame
    }
}

/// TFRecord's mask: the CRC of a string that holds its own CRC is degenerate, so it is rotated and shifted.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli; RFC 3720), reflected polynomial 0x82f63b78.
fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    let step = |crc: u32, byte: &u8| (crc >> 8) ^ TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize];
    !bytes.iter().fold(u32::MAX, step)
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32c_gives_the_published_check_values() {
        // RFC 3720, appendix B.4, and the usual check string.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn a_frame_reads_back_with_both_checksums() {
        let event = Event::scalars(1.5e9, 42, &[("loss", 0.25), ("learning_rate", 1e-3)]);
        let frame = event.frame();
        let length = u64::from_le_bytes(frame[..8].try_into().unwrap()) as usize;
        let checksum = |at: usize| u32::from_le_bytes(frame[at..at + 4].try_into().unwrap());
        assert_eq!(frame.len(), length + 16);
        assert_eq!(checksum(8), masked(crc32c(&frame[..8])));
        assert_eq!(checksum(12 + length), masked(crc32c(&frame[12..12 + length])));
        assert_eq!(Event::decode(&frame[12..12 + length]).unwrap(), event);
    }

    /// The bytes are from TensorBoard's own `RecordWriter` (tensorboard 2.21).
    #[test]
    fn a_file_is_byte_for_byte_what_tensorboard_writes() {
        let expected = "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c\
                        1a00000000000000129bd82d09000000000000044010072a0d0a0b0a046c6f7373150000803ea884b989";
        let mut file = Event::version(1.5).frame();
        file.extend(Event::scalars(2.5, 7, &[("loss", 0.25)]).frame());
        let hex: String = file.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected);
    }
}
