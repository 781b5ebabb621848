// Package suggest turns what a ledger says of an agent's actions into a policy for
// a person to review. It names each tool that was used, with a level that it
// proposes from the arguments, the hosts and the outcomes that were seen, and says
// why. It puts nothing in force.
//
// It may import pkg/policy, pkg/text and streams. Begin reading with suggest.go, its only file.
package suggest
