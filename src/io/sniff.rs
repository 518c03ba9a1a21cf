//! What a file is by its first bytes, and a named refusal for what is none of ours.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::{Context, Error, Result};

/// The two families of NetCDF files, and GRIB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Classic,
    Hdf5,
    Grib,
}

/// Bytes of a bulletin's heading: WMO's are up to 42, and satellites' broadcasts add as many.
const HEADING: usize = 100;

const HDF5: &[u8] = b"\x89HDF\r\n\x1a\n";

/// Looks at a file's first bytes.
pub fn family(path: &Path) -> Result<Family> {
    let name = path.display();
    let refuse = |what: &str, remedy: &str| Err(Error::input(format!("{name}: {what}")).hint(remedy));
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::input(format!("{name}: there is no such file")).hint("check the path"));
        }
        Err(error) => return Err(Error::input(format!("{name}: cannot be read")).caused_by(error)),
    };
    if metadata.is_dir() {
        let zarr = [".zgroup", ".zarray", ".zattrs", "zarr.json"].iter().any(|f| path.join(f).exists());
        return if zarr {
            refuse(
                "is a Zarr store, which wxsim does not read",
                "convert it once: python -c \"import xarray; xarray.open_zarr('STORE').to_netcdf('FILE.nc')\"",
            )
        } else {
            refuse("is a folder", "name its files: FOLDER/*.nc")
        };
    }
    if !metadata.is_file() {
        return refuse("is no regular file", "name a NetCDF or GRIB file");
    }
    let file = File::open(path).map_err(|error| {
        Error::input(format!("{name}: cannot be opened")).caused_by(error).hint("check its permissions")
    })?;
    let mut head = Vec::new();
    file.take(4096).read_to_end(&mut head).context(|| format!("{name}: cannot be read"))?;
    if head.starts_with(b"CDF") {
        return Ok(Family::Classic);
    }
    // A heading of a bulletin may stand before the first message.
    if head.windows(8).take(HEADING).any(|word| word.starts_with(b"GRIB") && matches!(word[7], 1 | 2)) {
        return Ok(Family::Grib);
    }
    // A user block of 512, 1024, 2048, ... bytes may stand before the signature.
    if head.starts_with(HDF5)
        || [512, 1024, 2048].iter().any(|at| head.get(*at..).is_some_and(|h| h.starts_with(HDF5)))
    {
        return Ok(Family::Hdf5);
    }
    if head.is_empty() {
        return refuse("is empty (0 bytes)", "download it again");
    }
    if head.iter().all(|b| *b == 0) {
        return refuse("begins with nothing but zero bytes", "the download was interrupted: fetch it again");
    }
    if head.starts_with(b"version https://git-lfs") {
        return refuse("is a git-LFS pointer, not the data", "fetch the data: git lfs pull");
    }
    if head.starts_with(b"\x1f\x8b") {
        return refuse("is compressed with gzip", "unpack it: gunzip FILE.gz");
    }
    if head.starts_with(b"BZh") || head.starts_with(b"\xfd7zXZ") || head.starts_with(b"\x28\xb5\x2f\xfd") {
        return refuse("is compressed as a whole", "unpack it: bunzip2, unxz or unzstd");
    }
    if head.starts_with(b"PK\x03\x04") {
        return refuse(
            "is a ZIP archive (the Climate Data Store sends these)",
            "unpack it: unzip FILE, and name the .nc files inside",
        );
    }
    if head.starts_with(b"\x0e\x03\x13\x01") {
        return refuse("is an HDF4 file", "convert it: ncl_convert2nc, or h4toh5 and nccopy");
    }
    let text = String::from_utf8_lossy(&head).to_lowercase();
    let text = text.trim_start();
    if text.starts_with("<!doctype") || text.starts_with("<html") || text.starts_with("<?xml") {
        return refuse(
            "is a web page, not data",
            "the download was answered by a page (log in, accept the terms): fetch it again",
        );
    }
    if text.starts_with('{') || text.starts_with('[') {
        return refuse(
            "is a JSON text, not data",
            "the server answered with a message: read the file, and fetch the data again",
        );
    }
    let printable =
        !text.contains('\u{fffd}') && !text.contains(|c: char| c.is_control() && !c.is_whitespace());
    if printable && metadata.len() < 1024 && !text.contains('\n') && text.contains('/') {
        return refuse(
            &format!("holds the text of a symbolic link ('{}'), not the data", text.trim()),
            "the link was copied as a text file (git on Windows does so): fetch the file that it names",
        );
    }
    if printable {
        return refuse("is a text file, not NetCDF", "name a NetCDF or GRIB file");
    }
    refuse(
        "is not a NetCDF or GRIB file: its first bytes are neither CDF nor HDF5 nor GRIB",
        "check where it came from",
    )
}
