//! What is not read, is cut off or damaged is told by file, message, variable and date.

use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use wxsim::error::{Kind, chain};
use wxsim::io::{Reader, Severity, inspect_file};

use crate::messages::Message;
use crate::packings::PACKINGS;
use crate::{File, read, reference, sentences, variable};

#[test]
fn what_is_not_read_is_refused_by_the_name_of_its_template() {
    let plain = Message::temperature(0).bytes();
    // Where sections 3, 4 and 5 begin.
    let (third, fourth, fifth) = (16 + 21, 16 + 21 + 72, 16 + 21 + 72 + 34);
    for (at, bytes, says) in [
        (third + 12, vec![0, 30], "lies on a Lambert conformal grid (grid template 3.30)"),
        (third + 12, vec![0, 1], "a rotated latitude-longitude grid"),
        (third + 12, vec![0, 101], "an unstructured grid"),
        (third + 12, vec![0, 50], "spherical harmonics"),
        (third + 30, vec![255; 4], "lies on a reduced grid (template 3.0"),
        (third + 71, vec![0x08], "rows that are shifted"),
        (third + 71, vec![0x40], "against its scanning mode"),
        (third + 63, vec![0, 1, 0, 0], "which are not 0.065536 degrees apart"),
        (third + 6, vec![0, 0, 0, 21], "4 x 5 points and 21 values"),
        (fourth + 7, vec![0, 5], "is a probability (product template 4.5)"),
        (fourth + 17, vec![3, 0, 0, 0, 1], "units of no fixed length (code 3"),
        (fourth + 22, vec![105], "lies on model levels (surface type 105)"),
        (fifth + 9, vec![0, 200], "run lengths (data template 5.200)"),
        (16 + 14, vec![13], "a reference time that is no date"),
    ] {
        let mut bytes_of = plain.clone();
        bytes_of[at..at + bytes.len()].copy_from_slice(&bytes);
        let info = File::of(&bytes_of).info();
        let refused = sentences(&info, Severity::Refused);
        assert!(info.variables.is_empty() && refused.contains(says), "{says}: {refused}");
    }
    // What stands beside it is read.
    let mut both = plain.clone();
    both[fifth + 10] = 200;
    both.extend(Message { surface: (103, 0, 2), ..Message::temperature(0) }.bytes());
    let info = File::of(&both).info();
    assert_eq!(info.variables.len(), 1);
    assert!(sentences(&info, Severity::Refused).contains("'t': is packed by run lengths"));
}

#[test]
fn edition_1_says_how_to_convert_it() {
    let file = File::of(b"GRIB\x00\x00\x40\x01\x00\x00\x1c\x02 and so on");
    let (sentence, hint) = file.error();
    assert!(sentence.contains("message 1 is GRIB edition 1, and only edition 2 is read"), "{sentence}");
    assert!(hint.contains("grib_set -s edition=2") && hint.contains("cdo -f grb2"), "{hint}");
}

#[test]
fn headings_and_padding_between_messages_are_passed_over() {
    let message = Message::temperature(0);
    let next = Message { reference: [2020, 1, 2, 0], ..Message::temperature(20) };
    let heading = b"\x01\r\r\n123\r\r\nHTXA50 ECMF 010000\r\r\n";
    let bytes =
        [&heading[..], &message.bytes(), b"\r\r\n\x03", &vec![0; 20_000], &next.bytes(), b"\0\0"].concat();
    let info = File::of(&bytes).info();
    assert_eq!(variable(&info, "t").times.len(), 2);
    assert_eq!(read(&info, "t", 1, 0)[15], next.value(20));
    let notes = sentences(&info, Severity::Note);
    assert!(
        notes.contains(&format!("{} bytes of the file belong to no message", heading.len() + 20_006)),
        "{notes}"
    );
}

#[test]
fn a_file_that_is_cut_off_names_message_variable_and_date() {
    let first = Message::temperature(0).bytes();
    let second = Message { reference: [2020, 1, 2, 0], ..Message::temperature(20) }.bytes();
    let whole = [first.clone(), second.clone()].concat();
    for length in 1..whole.len() {
        let file = File::of(&whole[..length]);
        if length == first.len() {
            assert_eq!(variable(&file.info(), "t").times.len(), 1);
            continue;
        }
        // What is left of a header that does not even say GRIB is none.
        if length < 8 {
            assert!(inspect_file(&file.path).is_err());
            continue;
        }
        if (1..4).contains(&(length as i64 - first.len() as i64)) {
            assert!(sentences(&file.info(), Severity::Note).contains("belong to no message"));
            continue;
        }
        let (sentence, hint) = file.error();
        let number = if length < first.len() { 1 } else { 2 };
        assert!(sentence.contains(&format!("x.grib2: message {number}")), "{length}: {sentence}");
        assert!(hint.contains("download it again"), "{hint}");
    }
    let (sentence, _) = File::of(&whole[..whole.len() - 10]).error();
    let expected = format!("expected {} bytes, found {}", second.len(), second.len() - 10);
    assert!(sentence.contains(&expected), "{sentence}");
    assert!(sentence.contains("message 2 ('t' on 500 hPa at 2020-01-02T00:00Z) is cut off"), "{sentence}");
}

#[test]
fn data_that_cannot_be_decoded_name_file_message_variable_and_date() {
    for name in PACKINGS.iter().filter(|name| !name.starts_with("simple-")) {
        let mut bytes = std::fs::read(reference().join(format!("{name}.grib2"))).unwrap();
        // Section 5 of the first message says that there are fewer values than points.
        bytes[16 + 21 + 72 + 34 + 8] ^= 1;
        let file = File::of(&bytes);
        let info = file.info();
        let mut out = vec![0.0; 475];
        let error = Reader::open(&info).unwrap().read(variable(&info, "t"), 0, 0, &mut out).unwrap_err();
        let sentence = chain(&error);
        assert!(
            sentence.contains("x.grib2: variable 't' on 850 hPa at 2020-02-29T12:00Z: message 1"),
            "{sentence}"
        );
        assert!(error.kind() == Kind::Input && error.advice().is_some());
    }
    // The image ends early, or is none at all.
    for (name, codec) in [("jpeg-12", "JPEG 2000"), ("png-16", "PNG"), ("ccsds-24", "CCSDS")] {
        let mut bytes = std::fs::read(reference().join(format!("{name}.grib2"))).unwrap();
        let seventh = bytes.windows(6).position(|w| w[..5] == [0, 0, 0, 6, 6] && w[5] == 255).unwrap() + 6;
        let length = u32::from_be_bytes(bytes[seventh..seventh + 4].try_into().unwrap()) as usize;
        bytes[seventh + 5..seventh + length].fill(0xa5);
        let info = File::of(&bytes).info();
        let mut out = vec![0.0; 475];
        match Reader::open(&info).unwrap().read(variable(&info, "t"), 0, 0, &mut out) {
            Ok(()) => assert_eq!(codec, "CCSDS", "noise is a stream of CCSDS too"),
            Err(error) => {
                let sentence = chain(&error);
                assert!(
                    sentence.contains(&format!("message 1 holds {codec} data that cannot be decoded")),
                    "{sentence}"
                );
            }
        }
    }
}

/// Reads all that the file promises; errors are as good as values, but panics are not.
fn read_all(path: &Path) -> Result<(), TestCaseError> {
    let info = match inspect_file(path) {
        Ok(info) => info,
        Err(error) => {
            prop_assert!(error.kind() == Kind::Input && error.advice().is_some(), "{}", chain(&error));
            return Ok(());
        }
    };
    let mut reader = Reader::open(&info).map_err(|e| TestCaseError::fail(chain(&e)))?;
    for variable in info.variables.iter().filter(|v| v.refused.is_none() && v.grid.points() < 1 << 20) {
        let mut field = vec![0.0; variable.grid.points()];
        for (time, level) in
            (0..variable.time_count()).flat_map(|t| (0..variable.level_count()).map(move |l| (t, l)))
        {
            if let Err(error) = reader.read(variable, time, level, &mut field) {
                prop_assert!(error.kind() == Kind::Input && error.advice().is_some(), "{}", chain(&error));
                prop_assert!(chain(&error).contains(&variable.name));
            }
        }
    }
    Ok(())
}

#[test]
fn damaged_files_are_errors_or_what_they_still_say() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.grib2");
    let flips = || proptest::collection::vec((0.0..1.0_f64, any::<u8>()), 1..4);
    for name in PACKINGS {
        let whole = std::fs::read(reference().join(format!("{name}.grib2"))).unwrap();
        let config = Config { cases: 60, failure_persistence: None, ..Config::default() };
        TestRunner::new(config)
            .run(&(flips(), prop_oneof![3 => Just(1.0), 1 => 0.0..1.0_f64]), |(places, share)| {
                let mut bytes = whole.clone();
                for (place, value) in places {
                    bytes[(place * whole.len() as f64) as usize] = value;
                }
                bytes.truncate((share * whole.len() as f64) as usize);
                std::fs::write(&path, &bytes).unwrap();
                read_all(&path)
            })
            .unwrap();
        // Every word of the headers in turn becomes huge.
        for at in 0..(16 + 21 + 72 + 34 + 49 + 6 + 60).min(whole.len() - 4) {
            let mut bytes = whole.clone();
            bytes[at..at + 4].copy_from_slice(&[0x7f, 0xff, 0xff, 0xf0]);
            std::fs::write(&path, &bytes).unwrap();
            read_all(&path).unwrap();
        }
    }
}
