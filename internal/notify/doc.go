// Package notify tells people and other systems of holds and alerts, with a link to the console. It approves
// nothing.
//
// Each route of the configuration has a durable JetStream consumer of the ledger, a credential that reaches this
// consumer only, and one receiver. A ledger message is acknowledged after the receiver took all of its
// notifications, or after they were written to the dead letters. So a notification is delivered at least once,
// whatever process is killed. It may be delivered twice; its id is the same both times.
//
// A notification has names, the reason of a hold or the message of an alert. Arguments and contents stay in the
// console. A text that the ledger marks as more sensitive than the route may carry is redacted (internal/ceiling).
// Receivers encode every value so that it cannot form markup, headers or frames.
package notify
