// Package notify notifies people and other systems of holds and alerts, with a link to the console. A
// notification cannot be used to approve anything.
//
// Each route of the configuration has a durable JetStream consumer of the ledger, a credential that can
// only access this consumer, and one receiver. A ledger message is acknowledged after the receiver
// accepted all of its notifications, or after they were written to the dead letters. A notification is
// therefore delivered at least once, even if a process is killed. It may be delivered twice; its id is
// the same both times.
//
// A notification contains names, and the reason of a hold or the message of an alert. Arguments and
// contents stay in the console. A text that the ledger marks above the route's sensitivity is redacted
// (internal/ceiling). Receivers encode every value so that it cannot form markup, headers or frames.
//
// Begin reading with run.go, then worker.go, which runs one route.
package notify
