//! Reading what was written by another version of a type.
//!
//! The reader has the schema of the writer, which crosses a connection once. If it is its own,
//! reading is what it always is. Else a plan says, type by type, which field of the writer is which
//! here: a field that is unknown here is skipped, one that the writer does not have is made by
//! `#[wire(default)]`, and any other difference is refused before anything is read, by the name of
//! the field. Types below which nothing differs are read by their own code.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::Schema;
use super::tree::{BY_MODULE, Form, SchemaNode, SchemaTree};
use crate::error::WireError;
use crate::fault::{Fault, planted};

/// How to read values that were written by a program in which their type may be another version.
///
/// | in the type of the writer | |
/// |---|---|
/// | a field is missing that has `#[wire(default)]` here | is made here |
/// | a field is not known here | is skipped |
/// | fields have another order | are read by their names |
/// | an enum has more variants, or fewer, or in another order | are read by their names; a value of a variant that is not known here is [`UnknownVariant`](WireError::UnknownVariant) |
/// | any other difference | is refused: [`Incompatible`](WireError::Incompatible), with the field |
///
/// A field that is skipped must have a structure that tells its length: what travels by serde, by code of its own, or as an
/// object of a trait cannot be skipped.
///
/// ```
/// use egret_stream::{ReadPlan, Reader, Schema, Wire, Writer};
///
/// mod old {
///     #[derive(egret_stream::Wire)]
///     pub struct Order { pub id: u32, pub note: String }
/// }
/// mod new {
///     #[derive(egret_stream::Wire, Debug, PartialEq)]
///     pub struct Order {
///         pub id: u64,
///     }
/// }
/// mod newer {
///     #[derive(egret_stream::Wire, Debug, PartialEq)]
///     pub struct Order {
///         #[wire(default)]
///         pub items: Vec<String>,
///         pub id: u32,
///     }
/// }
/// let mut writer = Writer::new();
/// writer.write_copy(&old::Order { id: 7, note: "none".into() })?;
/// let message = writer.to_vec();
///
/// // The text of the writer's schema crosses the connection.
/// let theirs = Schema::from_text(Schema::of::<old::Order>().as_str());
/// let plan = ReadPlan::of(&theirs, &Schema::of::<newer::Order>())?;
/// let order: newer::Order = Reader::new(&message).read_planned(&plan)?;
/// assert_eq!(order, newer::Order { items: vec![], id: 7 });
///
/// let refused = ReadPlan::of(&theirs, &Schema::of::<new::Order>()).unwrap_err();
/// assert_eq!(refused.to_string(), "Order.id: here it is `u64`, there `u32`");
/// # Ok::<(), egret_stream::WireError>(())
/// ```
///
/// The plan by default is that of equal types.
#[derive(Clone, Default)]
pub struct ReadPlan(Option<Arc<PlanSteps>>);

/// The steps of a plan for a type that differs; the first is for the whole.
pub(crate) struct PlanSteps {
    steps: Vec<PlanStep>,
    pub(crate) theirs: SchemaTree,
    /// The fingerprint of the type that is read.
    ours: u64,
}

/// How a type is read.
#[derive(Debug)]
enum PlanStep {
    /// By its own code.
    Same,
    /// The fields of the writer, in their order.
    Fields(Vec<FieldStep>),
    /// The variants of the writer, in their order.
    Variants(Vec<VariantStep>),
    /// The same parts as here, of which some differ.
    Parts {
        parts: Vec<usize>,
        /// Whether the writer has a byte before each element.
        is_marked: bool,
    },
}

/// How a field of the writer is read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FieldStep {
    /// As the field `ours`, by `step`.
    Read { ours: usize, step: usize },
    /// It is skipped: a line of the writer's schema.
    Skip(usize),
}

/// How a variant of the writer is read.
#[derive(Debug)]
struct VariantStep {
    /// Of the enum and the variant.
    name: (String, String),
    /// Which it is here, and the step for its fields.
    known: Option<(usize, usize)>,
}

/// A place in a plan: how the value that comes next is read. [`FromWire::read_planned`](crate::FromWire::read_planned) takes it,
/// and [`ReadPlan`] has an example.
#[derive(Clone, Copy)]
pub struct PlanCursor<'p> {
    pub(crate) plan: &'p Arc<PlanSteps>,
    pub(crate) at: usize,
}

impl ReadPlan {
    /// A plan to read what was written as `theirs` into a type whose schema is `ours`, which is of
    /// [this program](Schema::of).
    ///
    /// # Errors
    ///
    /// [`WireError::Incompatible`] with the first field that cannot be read; or if `theirs` is no
    /// schema.
    pub fn of(theirs: &Schema, ours: &Schema) -> Result<Self, WireError> {
        if theirs.as_str() == ours.as_str() {
            return Ok(Self(None));
        }
        let there = SchemaTree::read(theirs.as_str(), &[])?;
        let here = SchemaTree::read(ours.as_str(), &ours.defaulted)?;
        let mut planner = Planner {
            here: &here,
            there: &there,
            steps: Vec::new(),
            met: BTreeMap::new(),
            open: Vec::new(),
        };
        planner.step(0, 0, &|| root_name(&here));
        planner.run()?;
        planner.find_same()?;
        let steps: Vec<_> = planner.steps.into_iter().map(|planned| planned.step).collect();
        if matches!(steps[0], PlanStep::Same) {
            return Ok(Self(None));
        }
        Ok(Self(Some(Arc::new(PlanSteps { steps, theirs: there, ours: ours.fingerprint() }))))
    }

    /// Whether the type is the same at the writer: reading takes nothing more than it always does.
    #[must_use]
    pub const fn is_same(&self) -> bool {
        self.0.is_none()
    }

    /// The place of the whole value, if it is not the same.
    pub(crate) fn whole(&self) -> Option<PlanCursor<'_>> {
        self.0.as_ref().map(|plan| PlanCursor { plan, at: 0 })
    }

    /// The same, for a reader of a type with the fingerprint `reads` is the fingerprint of its type.
    pub(crate) fn begin(
        &self,
        reads: impl FnOnce() -> u64,
    ) -> Result<Option<PlanCursor<'_>>, WireError> {
        match &self.0 {
            None => Ok(None),
            Some(plan) if plan.ours == reads() => Ok(Some(PlanCursor { plan, at: 0 })),
            Some(_) => Err(WireError::Custom("the plan is for another type".to_owned())),
        }
    }
}

impl<'p> PlanCursor<'p> {
    fn step(&self) -> &'p PlanStep {
        self.plan.steps.get(self.at).unwrap_or(&PlanStep::Same)
    }

    /// Whether the value is read by the code that always reads it.
    #[must_use]
    pub fn is_same(&self) -> bool {
        matches!(self.step(), PlanStep::Same)
    }

    /// How the part `index` is read: of a list, an option or a box the only one, of a map key and value,
    /// of a tuple each.
    #[must_use]
    pub fn part(&self, index: usize) -> Self {
        match self.step() {
            PlanStep::Parts { parts, .. } => {
                Self { plan: self.plan, at: parts.get(index).copied().unwrap_or(usize::MAX) }
            }
            _ => *self,
        }
    }

    /// Whether a zero byte stands before each element of the list, set or map.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        matches!(self.step(), PlanStep::Parts { is_marked: true, .. })
    }

    /// The fields of the writer, in their order.
    pub(crate) fn fields(&self) -> &'p [FieldStep] {
        match self.step() {
            PlanStep::Fields(fields) => fields,
            _ => &[],
        }
    }

    /// How many variants the writer has.
    pub(crate) fn variants(&self) -> usize {
        match self.step() {
            PlanStep::Variants(variants) => variants.len(),
            _ => 0,
        }
    }

    /// The writer's variant `tag`: which it is here, and how its fields are read.
    pub(crate) fn variant(&self, tag: usize) -> Option<Result<(usize, Self), WireError>> {
        let PlanStep::Variants(variants) = self.step() else { return None };
        let VariantStep { name: (name, variant), known } = variants.get(tag)?;
        let unknown = || WireError::UnknownVariant { name: name.clone(), variant: variant.clone() };
        Some(known.map(|(ours, at)| (ours, Self { plan: self.plan, at })).ok_or_else(unknown))
    }
}

impl fmt::Debug for ReadPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadPlan").field("is_same", &self.is_same()).finish_non_exhaustive()
    }
}

impl fmt::Debug for PlanCursor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PlanCursor").field(self.step()).finish()
    }
}

/// A step, and what is known of it until all are there.
struct Planned {
    step: PlanStep,
    /// Where it is.
    path: String,
    /// It differs by itself, whatever its parts are.
    is_other: bool,
    /// It can be read by its own code alone.
    is_exact: bool,
}

/// Goes through two schemas at once.
struct Planner<'s> {
    here: &'s SchemaTree,
    there: &'s SchemaTree,
    steps: Vec<Planned>,
    /// The steps by the lines of the writer and of the reader.
    met: BTreeMap<(usize, usize), usize>,
    open: Vec<(usize, usize, usize)>,
}

impl Planner<'_> {
    /// The step that reads the writer's line `there` as the line `here`.
    fn step(&mut self, there: usize, here: usize, path: &dyn Fn() -> String) -> usize {
        let pair = (self.there.resolved(there), self.here.resolved(here));
        let next = self.steps.len();
        let step = *self.met.entry(pair).or_insert(next);
        if step == next {
            let step = PlanStep::Same;
            self.steps.push(Planned { step, path: path(), is_other: false, is_exact: false });
            self.open.push((pair.0, pair.1, next));
        }
        step
    }

    fn run(&mut self) -> Result<(), WireError> {
        while let Some((there, here, step)) = self.open.pop() {
            if self.steps.len() > STEPS_MAX {
                return Err(WireError::Custom(format!("a plan has more than {STEPS_MAX} steps")));
            }
            let path = self.steps[step].path.clone();
            let (theirs, ours) = (&self.there.nodes[there], &self.here.nodes[here]);
            let is_alike = (&theirs.word, theirs.is_by_module) == (&ours.word, ours.is_by_module);
            if !is_alike && !planted(Fault::AnyStructure) {
                return Err(refused(path, &told(ours), &told(theirs)));
            }
            match ours.form {
                Form::Struct | Form::Variant => self.fields(there, here, step, &path)?,
                Form::Enum => self.variants(there, here, step, &path)?,
                _ => self.parts(there, here, step, &path)?,
            }
            self.steps[step].is_exact |= ours.is_by_module;
        }
        Ok(())
    }

    fn fields(
        &mut self,
        there: usize,
        here: usize,
        step: usize,
        path: &str,
    ) -> Result<(), WireError> {
        let (theirs, ours) = (&self.there.nodes[there], &self.here.nodes[here]);
        let of = |label: &str| format!("{path}.{label}");
        let mut fields = Vec::new();
        for &part in &theirs.parts {
            let field = &self.there.nodes[part];
            let known =
                ours.parts.iter().position(|&own| self.here.nodes[own].label == field.label);
            fields.push(match known {
                Some(at) => {
                    let step = self.step(part, ours.parts[at], &|| of(&field.label));
                    FieldStep::Read { ours: at, step }
                }
                None => match self.there.unskippable(part) {
                    None => FieldStep::Skip(part),
                    Some(node) => {
                        let there =
                            format!("{}, in which `{}` cannot be skipped", told(field), node.word);
                        return Err(refused(of(&field.label), NOTHING, &there));
                    }
                },
            });
        }
        for own in self.here.parts(ours) {
            let is_there = self.there.parts(theirs).any(|field| field.label == own.label);
            if !is_there && !own.is_defaulted && !planted(Fault::MadeUp) {
                let here = format!("{}, without a default", told(own));
                return Err(refused(of(&own.label), &here, NOTHING));
            }
        }
        let in_order = |(at, field): (usize, &FieldStep)| matches!(field, FieldStep::Read { ours, .. } if *ours == at);
        let is_all = fields.len() == ours.parts.len();
        self.steps[step].is_other = !is_all || !fields.iter().enumerate().all(in_order);
        self.steps[step].step = PlanStep::Fields(fields);
        Ok(())
    }

    fn variants(
        &mut self,
        there: usize,
        here: usize,
        step: usize,
        path: &str,
    ) -> Result<(), WireError> {
        let (theirs, ours) = (&self.there.nodes[there], &self.here.nodes[here]);
        let mut variants = Vec::new();
        for &part in &theirs.parts {
            let name = &self.there.nodes[part].word;
            let known = ours.parts.iter().position(|&own| self.here.nodes[own].word == *name);
            let known =
                known.map(|at| (at, self.step(part, ours.parts[at], &|| format!("{path}.{name}"))));
            let name = (root_word(&ours.word).to_owned(), name.clone());
            variants.push(VariantStep { name, known });
        }
        let in_order = |(at, variant): (usize, &VariantStep)| {
            variant.known.is_some_and(|(ours, _)| ours == at)
        };
        let is_as_wide = tag_bytes(variants.len()) == tag_bytes(ours.parts.len());
        self.steps[step].is_other = !is_as_wide || !variants.iter().enumerate().all(in_order);
        self.steps[step].step = PlanStep::Variants(variants);
        Ok(())
    }

    fn parts(
        &mut self,
        there: usize,
        here: usize,
        step: usize,
        path: &str,
    ) -> Result<(), WireError> {
        let (theirs, ours) = (&self.there.nodes[there], &self.here.nodes[here]);
        let labels = |tree: &SchemaTree, parts: &[usize]| -> Vec<String> {
            parts.iter().map(|&part| tree.nodes[part].label.clone()).collect()
        };
        let (our_labels, their_labels) =
            (labels(self.here, &ours.parts), labels(self.there, &theirs.parts));
        if our_labels != their_labels {
            let of = |labels: &[String]| format!("`{}` of {} parts", ours.word, labels.len());
            return Err(refused(path.to_owned(), &of(&our_labels), &of(&their_labels)));
        }
        let mut parts = Vec::new();
        for (&there, &here) in theirs.parts.iter().zip(&ours.parts) {
            let label = &self.here.nodes[here].label;
            let of = || match &**label {
                "" => format!("{path}[]"),
                label => format!("{path}.{label}"),
            };
            parts.push(self.step(there, here, &of));
        }
        let marking = self.there.is_marking(there);
        let is_exact = matches!(ours.form, Form::Opaque | Form::Range(_)) || marking.is_none();
        let is_marked = marking.unwrap_or_default();
        self.steps[step].step = PlanStep::Parts { parts, is_marked };
        self.steps[step].is_exact = is_exact;
        Ok(())
    }

    /// Finds the types below which nothing differs: all, less those that lead to a difference.
    fn find_same(&mut self) -> Result<(), WireError> {
        let mut differs: Vec<bool> = self.steps.iter().map(|planned| planned.is_other).collect();
        loop {
            let mut is_changed = false;
            for at in (0..self.steps.len()).rev() {
                if !differs[at] && below(&self.steps[at].step).any(|part| differs[part]) {
                    (differs[at], is_changed) = (true, true);
                }
            }
            if !is_changed {
                break;
            }
        }
        for (planned, differs) in self.steps.iter_mut().zip(differs) {
            match differs {
                false => planned.step = PlanStep::Same,
                true if planned.is_exact => {
                    let here = "a type whose parts must be the same";
                    return Err(refused(planned.path.clone(), here, "one with other parts"));
                }
                true => {}
            }
        }
        Ok(())
    }
}

/// The steps for the parts of a type.
fn below(step: &PlanStep) -> Box<dyn Iterator<Item = usize> + '_> {
    match step {
        PlanStep::Same => Box::new(std::iter::empty()),
        PlanStep::Parts { parts, .. } => Box::new(parts.iter().copied()),
        PlanStep::Fields(fields) => Box::new(fields.iter().filter_map(|field| match field {
            FieldStep::Read { step, .. } => Some(*step),
            FieldStep::Skip(_) => None,
        })),
        PlanStep::Variants(variants) => {
            Box::new(variants.iter().filter_map(|variant| Some(variant.known?.1)))
        }
    }
}

fn root_name(tree: &SchemaTree) -> String {
    root_word(&tree.nodes[0].word).to_owned()
}

/// The name of a type without what it is.
fn root_word(word: &str) -> &str {
    word.strip_prefix("struct ").or_else(|| word.strip_prefix("enum ")).unwrap_or(word)
}

fn told(node: &SchemaNode) -> String {
    let how = if node.is_by_module { BY_MODULE } else { "" };
    format!("`{}`{how}", node.word)
}

/// How many bytes say which variant of so many follows.
pub(crate) const fn tag_bytes(variants: usize) -> usize {
    if variants <= 1 << 8 { 1 } else { 4 }
}

fn refused(field: String, here: &str, there: &str) -> WireError {
    WireError::Incompatible { field, here: here.to_owned(), there: there.to_owned() }
}

const NOTHING: &str = "nothing";
/// So many pairs of types a plan has at most.
const STEPS_MAX: usize = 1 << 16;
