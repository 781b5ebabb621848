// Package policy is the arbiter's policy: from a tool's name, its arguments
// and who calls it, to the level of the action on the trust ladder and the
// least verdict that it gets.
//
// A policy is one YAML document. Its entries name tools by words of their
// names or by patterns, may add a condition in CEL, and give a level:
//
//	L0 observe               allowed
//	L1 suggest               allowed
//	L2 isolated              allowed
//	L3 local and reversible  allowed
//	L4 external or shared    held for a person
//	L5 prohibited            denied
//
// Guarantees:
//   - The strictest of all entries that match decides, so no order of entries
//     and no added entry loosens what another one asks for. The one entry named
//     otherwise applies to tools that nothing else matches, may not be milder
//     than L4, and may be absent: what then matches nothing is denied.
//   - The ladder is a floor: an entry, a declared level and a tool's own
//     annotations raise it, nothing lowers it. A standing permission does not
//     lower it either: it is an approval given in advance, for named tools,
//     until a date, and counts only where nothing but the level holds an action.
//   - Whoever approves needs every role that the entries which matched name
//     under approval, or else the policy's own, or else approver.
//   - A condition that errs or exceeds its cost limit counts as met, at L4 or
//     above, and says so.
//   - Classify is a pure function of the policy's text and its arguments. It
//     reads no clock and depends on no iteration order.
//
// It does not decide: the arbiter joins its floor with what the sentinels and
// the host say. It does not know what a tool does either. A name is the word of
// whoever offers the tool, and a tool called get_weather may do anything; where
// that matters, name the tools that you trust by pattern and let the others
// fall to otherwise.
//
// The ladder is the autonomy ladder of the design; the combination of rules by
// their strictest effect is XACML's deny-overrides, and the fields that raise
// by a tool's own word are the tool annotations of the Model Context Protocol.
package policy
