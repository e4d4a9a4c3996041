//! References to objects of which only a trait is known.

use std::any::{Any, TypeId, type_name};
use std::fmt;

use egret_net::buf::Ref;

use super::class::{DescribeObject, GraphClass, short_name};
use super::object::{Object, Target};
use super::store::Store;

/// A type that can be seen as objects of a trait; made by
/// [`graph_register!`](crate::graph_register!).
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct ObjectEntry {
    name: fn() -> String,
    /// The name with its modules.
    path: fn() -> &'static str,
    id: fn() -> TypeId,
    wanted: fn() -> TypeId,
    enter: fn(&mut DescribeObject<'_>),
    ways: &'static (dyn Any + Sync),
}

/// How to see a type as objects of `D`.
#[doc(hidden)]
pub struct ObjectFinders<D: ?Sized> {
    /// To read.
    pub find: for<'g> fn(&'g Store, Ref<D>) -> Option<&'g D>,
    /// To write.
    pub find_mut: for<'g> fn(&'g mut Store, Ref<D>) -> Option<&'g mut D>,
}

impl<D: ?Sized> fmt::Debug for ObjectFinders<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ways").finish_non_exhaustive()
    }
}

impl ObjectEntry {
    #[doc(hidden)]
    #[must_use]
    pub const fn new<T: Object, D: ?Sized + 'static>(ways: &'static ObjectFinders<D>) -> Self {
        Self {
            name: short_name::<T>,
            path: type_name::<T>,
            id: TypeId::of::<T>,
            wanted: TypeId::of::<D>,
            enter: <T as Target>::enter,
            ways,
        }
    }
}

impl fmt::Debug for ObjectEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Entry").field(&(self.name)()).finish()
    }
}

inventory::collect!(ObjectEntry);

/// The ways to see the type `id`, by trait.
pub(super) fn ways(id: TypeId) -> Vec<(TypeId, &'static (dyn Any + Sync))> {
    let entries = inventory::iter::<ObjectEntry>.into_iter().filter(|entry| (entry.id)() == id);
    entries.map(|entry| ((entry.wanted)(), entry.ways)).collect()
}

/// Adds the classes of all types that are a `D`, by their names.
#[doc(hidden)]
pub fn enter<D: ?Sized + 'static>(describe: &mut DescribeObject<'_>) {
    let wanted = TypeId::of::<D>();
    let entries = inventory::iter::<ObjectEntry>.into_iter();
    let mut entries: Vec<_> = entries.filter(|entry| (entry.wanted)() == wanted).collect();
    entries.sort_by_key(|entry| ((entry.name)(), (entry.path)()));
    entries.iter().for_each(|entry| describe.later(entry.enter));
}

/// Whether objects of the class are known as a `D`.
#[doc(hidden)]
#[must_use]
pub fn is_class<D: ?Sized + 'static>(class: &GraphClass) -> bool {
    class.is_a(TypeId::of::<D>())
}

/// Finds an object of a trait.
#[doc(hidden)]
#[must_use]
pub fn find<D: ?Sized + 'static>(store: &Store, reference: Ref<D>) -> Option<&D> {
    (ways_of(store, reference)?.find)(store, reference)
}

/// Finds an object of a trait, to be written.
#[doc(hidden)]
#[must_use]
pub fn find_mut<D: ?Sized + 'static>(store: &mut Store, reference: Ref<D>) -> Option<&mut D> {
    (ways_of(store, reference)?.find_mut)(store, reference)
}

fn ways_of<D: ?Sized + 'static>(
    store: &Store,
    reference: Ref<D>,
) -> Option<&'static ObjectFinders<D>> {
    let class = store.arenas.get(usize::from(reference.class()))?.class;
    let wanted = TypeId::of::<D>();
    let ways = class.ways.iter().find(|(id, _)| *id == wanted)?;
    (ways.1 as &dyn Any).downcast_ref()
}

/// Finds an object as what it is; for the code that the macros write.
#[doc(hidden)]
#[must_use]
pub fn object<T: Object, D: ?Sized>(store: &Store, reference: Ref<D>) -> Option<&T> {
    store.object(reference.cast::<T>())
}

/// Finds an object as what it is, to be written.
#[doc(hidden)]
#[must_use]
pub fn object_mut<T: Object, D: ?Sized>(store: &mut Store, reference: Ref<D>) -> Option<&mut T> {
    store.object_mut(reference.cast::<T>())
}

/// Makes traits something that a [`Ref`] of a graph can lead to: `Ref<dyn Shape>`.
///
/// Which types can be behind it is said by [`graph_register!`](crate::graph_register!). What an
/// object is stands in its reference and before the object, so nothing is guessed.
///
/// ```
/// use egret_stream::graph::{Graph, Object, Ref};
/// use egret_stream::{graph_dynamic, graph_register};
///
/// trait Shape {
///     fn area(&self) -> f64;
/// }
/// graph_dynamic!(Shape);
///
/// #[derive(Clone, Copy, Object)]
/// #[repr(C)]
/// struct Square(f64);
/// impl Shape for Square {
///     fn area(&self) -> f64 {
///         self.0 * self.0
///     }
/// }
/// graph_register!(Square as dyn Shape);
///
/// #[derive(Clone, Copy, Object)]
/// #[repr(C)]
/// struct Drawing {
///     shapes: [Option<Ref<dyn Shape>>; 4],
/// }
///
/// let mut graph = Graph::new(Drawing { shapes: [None; 4] });
/// let square = graph.insert(Square(3.0));
/// graph.root_mut().shapes[0] = Some(square.upcast());
///
/// let shape = graph.root().shapes[0].unwrap();
/// assert_eq!(graph[shape].area(), 9.0);
/// assert_eq!(graph.downcast::<Square, dyn Shape>(shape), Some(square));
/// ```
#[macro_export]
macro_rules! graph_dynamic {
    ($($Trait:path),+ $(,)?) => {$(
        impl $crate::graph::Target for dyn $Trait {
            fn enter(describe: &mut $crate::graph::DescribeObject<'_>) {
                $crate::graph::dynamic::enter::<dyn $Trait>(describe);
            }
            fn is_class(_: ::core::any::TypeId, class: &$crate::graph::GraphClass) -> bool {
                $crate::graph::dynamic::is_class::<dyn $Trait>(class)
            }
            fn find(
                store: &$crate::graph::Store,
                reference: $crate::graph::Ref<Self>,
            ) -> ::core::option::Option<&Self> {
                $crate::graph::dynamic::find(store, reference)
            }
            fn find_mut(
                store: &mut $crate::graph::Store,
                reference: $crate::graph::Ref<Self>,
            ) -> ::core::option::Option<&mut Self> {
                $crate::graph::dynamic::find_mut(store, reference)
            }
        }
    )+};
}

/// Says that objects of a type can be behind a `Ref<dyn Trait>`; see
/// [`graph_dynamic!`](crate::graph_dynamic!). All graphs of the program know it then.
#[macro_export]
macro_rules! graph_register {
    ($($Type:ty as dyn $Trait:path),+ $(,)?) => {$(
        impl $crate::graph::IsA<dyn $Trait> for $Type {}
        $crate::dynamic::inventory::submit! {
            $crate::graph::dynamic::ObjectEntry::new::<$Type, dyn $Trait>(
                &$crate::graph::dynamic::ObjectFinders {
                    find: |store, reference| {
                        let found = $crate::graph::dynamic::object::<$Type, dyn $Trait>(store, reference);
                        found.map(|object| object as &dyn $Trait)
                    },
                    find_mut: |store, reference| {
                        let found =
                            $crate::graph::dynamic::object_mut::<$Type, dyn $Trait>(store, reference);
                        found.map(|object| object as &mut dyn $Trait)
                    },
                },
            )
        }
    )+};
}
