//! Values that another version of their type has written: read by a [plan](crate::ReadPlan).

use std::sync::Arc;

use super::Reader;
use crate::describe::{
    FieldStep, Form, PlanCursor, PlanSteps, ReadPlan, SchemaTree, fingerprint, tag_bytes,
};
use crate::error::{Invalid, WireError};
use crate::fault::{Fault, planted};
use crate::wire::{FromWire, Stop};
use crate::writer::padding_to;

/// How the contents of a shared value are read, once they are asked for.
pub(super) type ContentsPlan = (Arc<PlanSteps>, usize);

impl<'a> Reader<'a> {
    /// Reads the next value by a plan; as [`read`](Self::read) does if the writer has the same type.
    /// [`ReadPlan`] has an example.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and [`WireError::UnknownVariant`].
    pub fn read_planned<T: FromWire<'a>>(&mut self, plan: &ReadPlan) -> Result<T, WireError> {
        let Some(cursor) = plan.begin(fingerprint::<T>)? else { return self.read() };
        match T::read_planned(self, cursor) {
            Ok(value) => {
                self.value_is_read();
                Ok(value)
            }
            Err(stop) => Err(self.stopped(stop)),
        }
    }

    /// For types that read themselves: gives each field of the writer that is known here to `field`,
    /// with its number among the fields that travel, and skips the others.
    ///
    /// # Errors
    ///
    /// The reader knows why.
    pub fn planned_fields<'p>(
        &mut self,
        plan: PlanCursor<'p>,
        mut field: impl FnMut(&mut Self, usize, PlanCursor<'p>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        for step in plan.fields() {
            match *step {
                FieldStep::Read { ours, step } => {
                    field(self, ours, PlanCursor { plan: plan.plan, at: step })?;
                }
                FieldStep::Skip(line) => self.skip(&plan.plan.theirs, line)?,
            }
        }
        Ok(())
    }

    /// For types that read themselves: which variant follows, as a number of this program, and how
    /// its fields are read.
    ///
    /// # Errors
    ///
    /// The reader knows why.
    pub fn planned_variant<'p>(
        &mut self,
        plan: PlanCursor<'p>,
    ) -> Result<(usize, PlanCursor<'p>), Stop> {
        let tag = self.tag(plan.variants())?;
        match plan.variant(tag) {
            Some(Ok(known)) => Ok(known),
            Some(Err(unknown)) => Err(self.fail(unknown)),
            None => Err(self.fail(Invalid::new("variant of an enum"))),
        }
    }

    /// For types that read themselves: a list whose elements are of another version.
    ///
    /// # Errors
    ///
    /// The reader knows why.
    pub fn planned_list<T: FromWire<'a>>(&mut self, plan: PlanCursor<'_>) -> Result<Vec<T>, Stop> {
        let len = self.length(1)?;
        let part = plan.part(0);
        self.nested::<[T], _, _>(|r| {
            let mut ready = r.batch::<T>(0, len);
            r.charge::<[T]>(ready.saturating_mul(size_of::<T>()))?;
            let mut elements = Vec::with_capacity(ready);
            for done in 0..len {
                if done == ready {
                    let more = r.batch::<T>(ready, len);
                    r.charge::<[T]>(more.saturating_mul(size_of::<T>()))?;
                    elements.reserve_exact(more);
                    ready += more;
                }
                r.mark(plan)?;
                elements.push(T::read_planned(r, part)?);
            }
            Ok(elements)
        })
    }

    /// Passes the byte before an element of the writer's, if it has one there.
    pub(crate) fn mark(&mut self, plan: PlanCursor<'_>) -> Result<(), Stop> {
        if plan.is_marked() && self.array::<1>()? != [0] {
            return Err(self.fail(Invalid::new("element without bytes")));
        }
        Ok(())
    }

    /// Why a type that has no code for it cannot be read by a plan.
    #[cold]
    pub(crate) fn unplanned<T: ?Sized>(&mut self) -> Stop {
        let name = std::any::type_name::<T>();
        self.fail(WireError::Custom(format!(
            "`{name}` is another version at the writer, and its code reads only the version that is \
             here: it has no `read_planned`"
        )))
    }

    /// Fails unless the field that comes next is the same at the writer.
    #[doc(hidden)]
    pub fn is_same(&mut self, plan: PlanCursor<'_>, name: &str) -> Result<(), Stop> {
        match plan.is_same() {
            true => Ok(()),
            false => Err(self.fail(WireError::Custom(format!(
                "field `{name}` travels by a module, which reads only the version that is here"
            )))),
        }
    }

    /// Why a field is not there.
    #[doc(hidden)]
    #[cold]
    pub fn lacks(&mut self, name: &str) -> Stop {
        self.fail(WireError::Custom(format!("the writer lacks field `{name}`")))
    }

    /// The contents of the next shared value are read by `plan`.
    pub(crate) fn plan_contents(&mut self, plan: PlanCursor<'_>) {
        self.rare().contents = Some((Arc::clone(plan.plan), plan.at));
    }

    /// Reads the contents of a shared value, or of an object of a trait.
    #[inline]
    pub(crate) fn contents<T: FromWire<'a>>(&mut self) -> Result<T, Stop> {
        match self.rare.as_mut().and_then(|rare| rare.contents.take()) {
            None => T::read(self),
            Some((plan, at)) => T::read_planned(self, PlanCursor { plan: &plan, at }),
        }
    }

    /// Reads an object of a trait into a box.
    #[doc(hidden)]
    pub fn boxed_contents<T: FromWire<'a>>(&mut self) -> Result<Box<T>, Stop> {
        self.charge::<T>(size_of::<T>())?;
        self.nested::<T, _, _>(|r| r.contents().map(Box::new))
    }

    /// Fails if what was read did not ask how to.
    pub(crate) fn contents_are_read<T: ?Sized>(&mut self) -> Result<(), Stop> {
        match self.rare().contents.take() {
            None => Ok(()),
            Some(_) => Err(self.unplanned::<T>()),
        }
    }

    /// The number of a variant of so many.
    fn tag(&mut self, variants: usize) -> Result<usize, Stop> {
        Ok(match tag_bytes(variants) {
            1 => usize::from(u8::from_le_bytes(self.array()?)),
            _ => u32::from_le_bytes(self.array()?) as usize,
        })
    }

    /// Passes a value whose type is the line `at` of a schema.
    fn skip(&mut self, tree: &SchemaTree, at: usize) -> Result<(), Stop> {
        self.nested::<SchemaTree, _, _>(|r| r.skip_form(tree, tree.resolved(at)))
    }

    fn skip_form(&mut self, tree: &SchemaTree, at: usize) -> Result<(), Stop> {
        let node = &tree.nodes[at];
        match node.form {
            Form::Fixed(bytes) | Form::Number(bytes) => self.pass(bytes),
            Form::Plain(bytes, align) => self.pass_aligned(1, bytes, align),
            Form::Text => {
                let len = self.length(1)?;
                self.pass(len - usize::from(len > 0 && planted(Fault::SkippedShort)))
            }
            Form::Families(old, new) => match self.array()? {
                [4] => self.pass(old),
                [6] => self.pass(new),
                _ => Err(self.fail(Invalid::new(ADDRESS))),
            },
            Form::List | Form::Bag | Form::Map => self.skip_elements(tree, at),
            Form::Option => match self.array()? {
                [0] => Ok(()),
                [1] => self.skip(tree, node.parts[0]),
                _ => Err(self.fail(Invalid::new("option"))),
            },
            Form::Result => match self.array()? {
                [tag @ 0..=1] => self.skip(tree, node.parts[usize::from(tag)]),
                _ => Err(self.fail(Invalid::new("result"))),
            },
            Form::Shared | Form::Weak => self.skip_shared(tree, node.parts[0]),
            Form::Array(count) | Form::Range(count) => {
                let is_empty = tree.takes_nothing(node.parts[0]);
                let count = if is_empty { 0 } else { count };
                (0..count).try_for_each(|_| self.skip(tree, node.parts[0]))
            }
            Form::Tuple | Form::Struct | Form::Variant => {
                node.parts.iter().try_for_each(|&part| self.skip(tree, part))
            }
            Form::Enum => match node.parts.get(self.tag(node.parts.len())?) {
                Some(&variant) => self.skip(tree, variant),
                None => Err(self.fail(Invalid::new("variant of an enum"))),
            },
            Form::Again(_) | Form::Opaque => Err(self.unplanned::<SchemaTree>()),
        }
    }

    fn skip_elements(&mut self, tree: &SchemaTree, at: usize) -> Result<(), Stop> {
        let node = &tree.nodes[at];
        let len = self.length(1)?;
        let one = &tree.nodes[tree.resolved(node.parts[0])];
        match (node.form, one.form) {
            (Form::List, Form::Number(bytes)) => return self.pass_aligned(len, bytes, bytes),
            (Form::List, Form::Plain(bytes, align)) => return self.pass_aligned(len, bytes, align),
            (Form::List | Form::Bag, Form::Fixed(bytes)) if bytes > 0 => {
                return self.pass(len.saturating_mul(bytes));
            }
            _ => {}
        }
        let is_marked = tree.is_marking(at).unwrap_or_default();
        for _ in 0..len {
            if is_marked && self.array::<1>()? != [0] {
                return Err(self.fail(Invalid::new("element without bytes")));
            }
            node.parts.iter().try_for_each(|&part| self.skip(tree, part))?;
        }
        Ok(())
    }

    /// A shared value that is skipped has its number, and is not there for those that refer to it.
    fn skip_shared(&mut self, tree: &SchemaTree, part: usize) -> Result<(), Stop> {
        if self.array()? != [0; 4] {
            return Ok(());
        }
        self.charge::<SchemaTree>(SHARED_BYTES)?;
        let id = self.shared().open();
        self.shared().set_skipped(id);
        self.skip(tree, part)
    }

    /// Passes elements as they lie in memory, with the zeros before them.
    fn pass_aligned(&mut self, len: usize, bytes: usize, align: usize) -> Result<(), Stop> {
        let zeros = if len == 0 { 0 } else { padding_to(self.position(), align) };
        if self.run(zeros)?.iter().any(|&byte| byte != 0) {
            return Err(self.fail(Invalid::new("padding")));
        }
        self.pass(len.saturating_mul(bytes))
    }

    /// Passes bytes.
    fn pass(&mut self, mut bytes: usize) -> Result<(), Stop> {
        self.has(bytes)?;
        while bytes > 0 {
            let now = bytes.min(self.rest.bytes.len().max(PASS_BYTES));
            self.run(now)?;
            bytes -= now;
        }
        Ok(())
    }
}

impl SchemaTree {
    fn takes_nothing(&self, at: usize) -> bool {
        self.nodes[at].takes == crate::describe::Takes::Nothing
    }
}

/// What a type with no code for it makes of a plan.
pub(crate) fn read_same<'a, T: FromWire<'a>>(
    r: &mut Reader<'a>,
    plan: PlanCursor<'_>,
) -> Result<T, Stop> {
    match plan.is_same() {
        true => T::read(r),
        false => Err(r.unplanned::<T>()),
    }
}

const ADDRESS: &str = "IP address";
/// The memory that is charged for a shared value that is skipped.
const SHARED_BYTES: usize = 128;
/// What is passed at a time where it does not lie together.
const PASS_BYTES: usize = 16 << 10;
