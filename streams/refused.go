package streams

import (
	"fmt"
	"strings"
)

// Codes by which a NATS server reports that it has no room for a stream, regardless of the stream's
// own limits.
const (
	// apiAccountResources is also reported while lazaret up forbids its account to store messages, because the disk is
	// nearly full.
	apiAccountResources = 10002
	apiResources        = 10023
	apiStorage          = 10047
)

// RefusedText returns the reason why a stream refused an event, from the code and description of
// the server's error.
func RefusedText(code int, description string) string {
	low := strings.ToLower(description)
	if code == apiAccountResources || code == apiResources || code == apiStorage ||
		strings.Contains(low, "no space left") || strings.Contains(low, "disk quota") {
		return fmt.Sprintf("the server's disk is full (%s): nothing is stored until there is room; lazaret doctor says how "+
			"much is free", description)
	}
	return description
}
