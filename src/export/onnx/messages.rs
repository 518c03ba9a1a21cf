//! The part of ONNX's protocol buffers that a graph of ours consists of, as `onnx.proto` numbers it (onnx.ai, IR version 10).

use prost::Message;

/// The version of the format itself.
pub const IR_VERSION: i64 = 10;

/// The version of the operators: the first whose convolutions take bfloat16.
pub const OPSET: i64 = 22;

/// Kinds of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Type {
    Float = 1,
    Int8 = 3,
    Int64 = 7,
    Bool = 9,
    Float16 = 10,
    Bfloat16 = 16,
    /// e4m3, without infinities.
    Float8 = 17,
}

#[derive(Clone, PartialEq, Message)]
pub struct Model {
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    #[prost(string, tag = "2")]
    pub producer_name: String,
    #[prost(string, tag = "3")]
    pub producer_version: String,
    #[prost(string, tag = "6")]
    pub doc_string: String,
    #[prost(message, optional, tag = "7")]
    pub graph: Option<Graph>,
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSet>,
    #[prost(message, repeated, tag = "14")]
    pub metadata: Vec<Entry>,
}

#[derive(Clone, PartialEq, Message)]
pub struct OperatorSet {
    /// Empty for ONNX's own operators.
    #[prost(string, tag = "1")]
    pub domain: String,
    #[prost(int64, tag = "2")]
    pub version: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Entry {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Graph {
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<Node>,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<Tensor>,
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<Value>,
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<Value>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Node {
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(string, tag = "4")]
    pub op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<Attribute>,
}

/// Exactly one of its values is there, also when it is 0.
#[derive(Clone, PartialEq, Message)]
pub struct Attribute {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    #[prost(int64, repeated, tag = "8")]
    pub ints: Vec<i64>,
    #[prost(int32, tag = "20")]
    pub kind: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Tensor {
    #[prost(int64, repeated, tag = "1")]
    pub dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    #[prost(string, tag = "8")]
    pub name: String,
    /// Little-endian, outermost first.
    #[prost(bytes = "vec", tag = "9")]
    pub raw_data: Vec<u8>,
}

/// An input or an output.
#[derive(Clone, PartialEq, Message)]
pub struct Value {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub kind: Option<ValueType>,
    #[prost(string, tag = "3")]
    pub doc_string: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ValueType {
    #[prost(message, optional, tag = "1")]
    pub tensor: Option<TensorType>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorType {
    #[prost(int32, tag = "1")]
    pub element: i32,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<Shape>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Shape {
    #[prost(message, repeated, tag = "1")]
    pub dimension: Vec<Dimension>,
}

/// A number or a name.
#[derive(Clone, PartialEq, Message)]
pub struct Dimension {
    #[prost(oneof = "Length", tags = "1, 2")]
    pub length: Option<Length>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Length {
    #[prost(int64, tag = "1")]
    Fixed(i64),
    #[prost(string, tag = "2")]
    Named(String),
}

impl Attribute {
    pub fn int(name: &str, value: i64) -> Self {
        Self { name: name.into(), i: Some(value), ints: Vec::new(), kind: 2 }
    }

    pub fn ints(name: &str, values: &[i64]) -> Self {
        Self { name: name.into(), i: None, ints: values.to_vec(), kind: 7 }
    }
}

impl Value {
    /// Of float32; a length of `None` is the batch.
    pub fn floats(name: &str, shape: &[Option<usize>], doc: &str) -> Self {
        let dimension = |length: &Option<usize>| Dimension {
            length: Some(match length {
                Some(length) => Length::Fixed(*length as i64),
                None => Length::Named("batch".into()),
            }),
        };
        let shape = Shape { dimension: shape.iter().map(dimension).collect() };
        let tensor = TensorType { element: Type::Float as i32, shape: Some(shape) };
        Self { name: name.into(), kind: Some(ValueType { tensor: Some(tensor) }), doc_string: doc.into() }
    }
}
