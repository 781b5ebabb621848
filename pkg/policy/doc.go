// Package policy implements the arbiter's policy. From a tool's name, its arguments and its caller
// it derives the level of an action on the trust ladder and the least strict verdict (the floor).
//
// A policy is one YAML document. Its entries match tools by words of their names or by patterns,
// may have a condition in CEL, and set a level:
//
//	L0 observe               allowed
//	L1 suggest               allowed
//	L2 isolated              allowed
//	L3 local and reversible  allowed
//	L4 external or shared    held for a person
//	L5 prohibited            denied
//
// Guarantees:
//   - The strictest matching entry decides. The order of entries does not matter, and adding an
//     entry does not loosen another one, with one exception: entries that match words of a tool's
//     name do not count if an entry for the tool's own catalogue (of) names the tool, or if a
//     person accepted the tool at a level. The entry named `otherwise` applies to tools that no
//     other entry matches. Its level must be at least L4. Without this entry such tools are denied.
//   - The level sets a floor. An entry, a declared level and a tool's own annotations can raise
//     it. Nothing lowers it. A standing permission does not lower it either: it is an approval
//     given in advance, for named tools, until a date. It applies only if nothing but the level
//     holds the action. The same is true of a delegation ground (see Delegated).
//   - An approver needs every role that the matching entries name under `approval`. If they name
//     none, the approver needs the policy's role, and if the policy has none, the role `approver`.
//   - A condition that fails or exceeds its cost limit counts as met, at L4 or above, and the
//     reason says so.
//   - Classify is a pure function of the policy's text and its arguments. It reads no clock and
//     depends on no iteration order.
//
// The package does not give verdicts: the arbiter joins the floor with the results of the sentinels
// and the host. It does not know what a tool really does. The provider of a tool chooses its name,
// and a tool called get_weather may do anything. Where that matters, name the trusted tools by
// pattern, and leave all others to the entry `otherwise`.
//
// The strictest of several entries decides, as in XACML's deny-overrides. The annotations are those
// of the Model Context Protocol.
package policy
