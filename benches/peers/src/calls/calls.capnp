@0xb2ac91d7e4f05c31;

interface Calls {
  null @0 () -> ();
  bytes @1 (data :Data) -> (ends :UInt32);
  sum @2 (tree :Node) -> (total :Int64);
}

struct Node {
  a @0 :Int32;
  b @1 :Int32;
  c @2 :Int32;
  d @3 :Int32;
  left @4 :Node;
  right @5 :Node;
}
