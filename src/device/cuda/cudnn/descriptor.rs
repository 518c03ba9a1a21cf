//! Descriptors of the backend API: objects that are filled with attributes, made final, and refer to each other.

use std::ffi::c_void;

use cudarc::cudnn::sys::{
    cudnnBackendAttributeName_t as Attribute, cudnnBackendAttributeType_t as Kind,
    cudnnBackendDescriptor_t as RawDescriptor, cudnnBackendDescriptorType_t as DescriptorKind,
};

use super::library::Table;
use crate::error::Result;

/// An owned descriptor.
pub struct Descriptor {
    table: &'static Table,
    raw: RawDescriptor,
}

/// Values that an attribute may have, as cuDNN reads them.
pub trait Value: Copy {
    const KIND: Kind;
}

impl Value for i64 {
    const KIND: Kind = Kind::CUDNN_TYPE_INT64;
}

impl Value for f32 {
    const KIND: Kind = Kind::CUDNN_TYPE_FLOAT;
}

impl Value for RawDescriptor {
    const KIND: Kind = Kind::CUDNN_TYPE_BACKEND_DESCRIPTOR;
}

impl Value for cudarc::cudnn::sys::cudnnDataType_t {
    const KIND: Kind = Kind::CUDNN_TYPE_DATA_TYPE;
}

impl Value for cudarc::cudnn::sys::cudnnConvolutionMode_t {
    const KIND: Kind = Kind::CUDNN_TYPE_CONVOLUTION_MODE;
}

impl Value for cudarc::cudnn::sys::cudnnBackendHeurMode_t {
    const KIND: Kind = Kind::CUDNN_TYPE_HEUR_MODE;
}

impl Value for cudarc::cudnn::sys::cudnnHandle_t {
    const KIND: Kind = Kind::CUDNN_TYPE_HANDLE;
}

/// An address on the GPU.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct Address(pub u64);

impl Value for Address {
    const KIND: Kind = Kind::CUDNN_TYPE_VOID_PTR;
}

impl Descriptor {
    pub fn new(table: &'static Table, kind: DescriptorKind) -> Result<Self> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: writes one pointer.
        table.check(unsafe { (table.create_descriptor)(kind, &mut raw) }, "cudnnBackendCreateDescriptor")?;
        Ok(Self { table, raw })
    }

    pub fn raw(&self) -> RawDescriptor {
        self.raw
    }

    pub fn set<V: Value>(self, attribute: Attribute, values: &[V]) -> Result<Self> {
        let pointer: *const c_void = values.as_ptr().cast();
        // SAFETY: reads `len` values of the kind that the trait says; cuDNN copies them.
        let status =
            unsafe { (self.table.set_attribute)(self.raw, attribute, V::KIND, values.len() as i64, pointer) };
        self.table.check(status, &format!("cudnnBackendSetAttribute({attribute:?})"))?;
        Ok(self)
    }

    pub fn finish(self) -> Result<Self> {
        // SAFETY: a live descriptor.
        self.table.check(unsafe { (self.table.finalize)(self.raw) }, "cudnnBackendFinalize")?;
        Ok(self)
    }

    pub fn number(&self, attribute: Attribute) -> Result<i64> {
        let (mut value, mut count) = (0_i64, 0_i64);
        let pointer: *mut c_void = (&raw mut value).cast();
        // SAFETY: writes one number.
        let status =
            unsafe { (self.table.get_attribute)(self.raw, attribute, i64::KIND, 1, &mut count, pointer) };
        self.table.check(status, &format!("cudnnBackendGetAttribute({attribute:?})"))?;
        Ok(value)
    }

    /// How many descriptors an attribute may list: an upper bound.
    pub fn count(&self, attribute: Attribute) -> Result<usize> {
        let mut count = 0_i64;
        self.get(attribute, 0, &mut count, std::ptr::null_mut())?;
        Ok(count.max(0) as usize)
    }

    /// Lets cuDNN fill up to `room` descriptors that an attribute lists; returns those that it filled.
    pub fn list(&self, attribute: Attribute, kind: DescriptorKind, room: usize) -> Result<Vec<Descriptor>> {
        let mut descriptors =
            (0..room).map(|_| Descriptor::new(self.table, kind)).collect::<Result<Vec<_>>>()?;
        let mut raw: Vec<RawDescriptor> = descriptors.iter().map(Descriptor::raw).collect();
        let mut count = 0_i64;
        self.get(attribute, room, &mut count, raw.as_mut_ptr().cast())?;
        descriptors.truncate(count.max(0) as usize);
        Ok(descriptors)
    }

    fn get(&self, attribute: Attribute, room: usize, count: &mut i64, pointer: *mut c_void) -> Result<()> {
        // SAFETY: `room` descriptors can be read from `pointer`, whose contents cuDNN overwrites.
        let status = unsafe {
            (self.table.get_attribute)(self.raw, attribute, RawDescriptor::KIND, room as i64, count, pointer)
        };
        self.table.check(status, &format!("cudnnBackendGetAttribute({attribute:?})"))
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: created in `new`, destroyed only here. What refers to it was final and keeps what it needs.
        unsafe { (self.table.destroy_descriptor)(self.raw) };
    }
}
