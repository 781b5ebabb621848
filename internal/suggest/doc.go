// Package suggest creates a policy for review from an agent's actions in the ledger. It lists each used
// tool with a level that it proposes from the observed arguments, hosts and outcomes, and the reason.
// It does not activate the policy.
//
// It may import pkg/policy, pkg/text and streams. Begin reading with suggest.go, its only file.
package suggest
