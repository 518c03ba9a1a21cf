//! Puts a graph together node by node. A [`Wire`] is the name of what a node gives.

use std::collections::BTreeMap;

use half::{bf16, f16};

use super::messages::{Attribute, Graph, Node, Tensor, Type, Value};

/// The name of one array in the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wire(String);

#[derive(Default)]
pub struct Builder {
    nodes: Vec<Node>,
    constants: Vec<Tensor>,
    inputs: Vec<Value>,
    outputs: Vec<Value>,
    /// Shapes, axes and bounds that are there already.
    integers: BTreeMap<Vec<i64>, Wire>,
}

impl Builder {
    /// An input of float32; a length of `None` is the batch.
    pub fn input(&mut self, name: &str, shape: &[Option<usize>], doc: &str) -> Wire {
        self.inputs.push(Value::floats(name, shape, doc));
        Wire(name.into())
    }

    /// Makes `wire` an output.
    pub fn output(&mut self, name: &str, wire: &Wire, shape: &[Option<usize>], doc: &str) {
        self.outputs.push(Value::floats(name, shape, doc));
        self.nodes.push(Node {
            input: vec![wire.0.clone()],
            output: vec![name.into()],
            name: format!("give_{name}"),
            op_type: "Identity".into(),
            attribute: Vec::new(),
        });
    }

    pub fn finish(self, name: &str) -> Graph {
        Graph {
            node: self.nodes,
            name: name.into(),
            initializer: self.constants,
            input: self.inputs,
            output: self.outputs,
        }
    }

    /// A node with one output.
    pub fn node(&mut self, operator: &str, inputs: &[&Wire], attributes: Vec<Attribute>) -> Wire {
        let [wire] = self.node_of_many(operator, inputs, attributes);
        wire
    }

    fn node_of_many<const OUTPUTS: usize>(
        &mut self,
        operator: &str,
        inputs: &[&Wire],
        attribute: Vec<Attribute>,
    ) -> [Wire; OUTPUTS] {
        let name = format!("{}_{}", operator.to_lowercase(), self.nodes.len());
        let of = |number| if OUTPUTS == 1 { name.clone() } else { format!("{name}_{number}") };
        let outputs: [String; OUTPUTS] = std::array::from_fn(of);
        self.nodes.push(Node {
            input: inputs.iter().map(|wire| wire.0.clone()).collect(),
            output: outputs.to_vec(),
            name,
            op_type: operator.into(),
            attribute,
        });
        outputs.map(Wire)
    }

    /// Numbers in the bytes of their kind.
    pub fn constant(&mut self, name: &str, shape: &[usize], kind: Type, raw_data: Vec<u8>) -> Wire {
        self.constants.push(Tensor {
            dims: shape.iter().map(|&length| length as i64).collect(),
            data_type: kind as i32,
            name: name.into(),
            raw_data,
        });
        Wire(name.into())
    }

    pub fn floats(&mut self, name: &str, shape: &[usize], values: &[f32]) -> Wire {
        self.floats_as(name, shape, values, Type::Float)
    }

    /// Numbers rounded to a kind of floating-point numbers.
    pub fn floats_as(&mut self, name: &str, shape: &[usize], values: &[f32], kind: Type) -> Wire {
        let raw = match kind {
            Type::Float16 => values.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect(),
            Type::Bfloat16 => values.iter().flat_map(|&x| bf16::from_f32(x).to_le_bytes()).collect(),
            _ => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
        };
        self.constant(name, shape, kind, raw)
    }

    pub fn booleans(&mut self, name: &str, shape: &[usize], values: impl Iterator<Item = bool>) -> Wire {
        self.constant(name, shape, Type::Bool, values.map(u8::from).collect())
    }

    pub fn number(&mut self, name: &str, value: f32) -> Wire {
        self.floats(name, &[], &[value])
    }

    /// A vector of whole numbers; equal ones are kept once.
    pub fn integers(&mut self, values: &[i64]) -> Wire {
        if let Some(wire) = self.integers.get(values) {
            return wire.clone();
        }
        let name = format!("integers_{}", self.integers.len());
        let raw = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let wire = self.constant(&name, &[values.len()], Type::Int64, raw);
        self.integers.insert(values.to_vec(), wire.clone());
        wire
    }

    pub fn add(&mut self, a: &Wire, b: &Wire) -> Wire {
        self.node("Add", &[a, b], Vec::new())
    }

    pub fn subtract(&mut self, a: &Wire, b: &Wire) -> Wire {
        self.node("Sub", &[a, b], Vec::new())
    }

    pub fn multiply(&mut self, a: &Wire, b: &Wire) -> Wire {
        self.node("Mul", &[a, b], Vec::new())
    }

    pub fn divide(&mut self, a: &Wire, b: &Wire) -> Wire {
        self.node("Div", &[a, b], Vec::new())
    }

    pub fn sigmoid(&mut self, x: &Wire) -> Wire {
        self.node("Sigmoid", &[x], Vec::new())
    }

    pub fn tanh(&mut self, x: &Wire) -> Wire {
        self.node("Tanh", &[x], Vec::new())
    }

    /// Where the condition holds `a`, elsewhere `b`.
    pub fn choose(&mut self, condition: &Wire, a: &Wire, b: &Wire) -> Wire {
        self.node("Where", &[condition, a, b], Vec::new())
    }

    pub fn cast(&mut self, x: &Wire, to: Type) -> Wire {
        self.node("Cast", &[x], vec![Attribute::int("to", to as i64)])
    }

    pub fn concat(&mut self, axis: i64, parts: &[Wire]) -> Wire {
        match parts {
            [one] => one.clone(),
            parts => {
                let parts: Vec<&Wire> = parts.iter().collect();
                self.node("Concat", &parts, vec![Attribute::int("axis", axis)])
            }
        }
    }

    /// Equal parts along an axis.
    pub fn split<const PARTS: usize>(&mut self, x: &Wire, axis: i64) -> [Wire; PARTS] {
        let attributes = vec![Attribute::int("axis", axis), Attribute::int("num_outputs", PARTS as i64)];
        self.node_of_many("Split", &[x], attributes)
    }

    /// `x[first..end]` along an axis.
    pub fn slice(&mut self, x: &Wire, axis: i64, first: usize, end: usize) -> Wire {
        let bounds = [first as i64, end as i64, axis].map(|bound| self.integers(&[bound]));
        self.node("Slice", &[x, &bounds[0], &bounds[1], &bounds[2]], Vec::new())
    }

    /// Places `first, first - 1, ..., last` along an axis.
    pub fn slice_back(&mut self, x: &Wire, axis: i64, first: usize, last: usize) -> Wire {
        // An end of -1 would count from the back: the smallest number is beyond the front.
        let end = if last == 0 { i64::from(i32::MIN) } else { last as i64 - 1 };
        let bounds = [first as i64, end, axis, -1].map(|bound| self.integers(&[bound]));
        self.node("Slice", &[x, &bounds[0], &bounds[1], &bounds[2], &bounds[3]], Vec::new())
    }

    /// All but the first length, which is the batch and stays.
    pub fn reshape(&mut self, x: &Wire, inner: &[usize]) -> Wire {
        let shape: Vec<i64> = std::iter::once(0).chain(inner.iter().map(|&length| length as i64)).collect();
        let shape = self.integers(&shape);
        self.node("Reshape", &[x, &shape], Vec::new())
    }

    pub fn transpose(&mut self, x: &Wire, order: &[i64]) -> Wire {
        self.node("Transpose", &[x], vec![Attribute::ints("perm", order)])
    }

    /// `x`, which has a batch of 1, repeated for the batch of `like`.
    pub fn for_batch_of(&mut self, x: &Wire, inner: &[usize], like: &Wire) -> Wire {
        let inner: Vec<i64> = inner.iter().map(|&length| length as i64).collect();
        let batch = [Attribute::int("start", 0), Attribute::int("end", 1)];
        let batch = self.node("Shape", &[like], batch.to_vec());
        let inner = self.integers(&inner);
        let shape = self.concat(0, &[batch, inner]);
        self.node("Expand", &[x, &shape], Vec::new())
    }

    pub fn mean_over(&mut self, x: &Wire, axis: i64) -> Wire {
        let axes = self.integers(&[axis]);
        self.node("ReduceMean", &[x, &axes], vec![Attribute::int("keepdims", 1)])
    }
}
