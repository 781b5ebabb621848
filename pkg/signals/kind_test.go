package signals

import (
	"testing"

	"lazaret/streams"
)

// The rule compiler accepts rules on every kind of event. A rule on a kind that no function reads would never fire.
func TestEveryKindOfEventIsReadForRules(t *testing.T) {
	for _, k := range streams.Kinds {
		if readers[k.About().Type] == nil {
			t.Errorf("no function reads entries of type %q for rules", k.About().Type)
		}
	}
}
