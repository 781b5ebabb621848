package streams

import (
	"fmt"
	"strings"
)

// Error codes of a NATS server that has no room for another message, although the stream has not reached its own
// limits.
const (
	// The server also returns apiAccountResources while the disk is nearly full, because `lazaret up` then forbids its
	// account to store messages.
	apiAccountResources = 10002
	apiResources        = 10023
	apiStorage          = 10047
)

// RefusedText says why a stream did not accept an event. code and description are from the server's error.
func RefusedText(code int, description string) string {
	low := strings.ToLower(description)
	if code == apiAccountResources || code == apiResources || code == apiStorage ||
		strings.Contains(low, "no space left") || strings.Contains(low, "disk quota") {
		return fmt.Sprintf("the server's disk is full (%s): nothing is stored until there is room; lazaret doctor says how "+
			"much is free", description)
	}
	return description
}
