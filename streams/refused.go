package streams

import (
	"fmt"
	"strings"
)

// Codes by which a NATS server says that it has no room for a stream, whatever the stream's
// own limits are.
const (
	apiAccountResources = 10002 // what lazaret up sets while its disk is nearly full
	apiResources        = 10023
	apiStorage          = 10047
)

// RefusedText says why a stream refused an event, by the code and description of the
// server's error.
func RefusedText(code int, description string) string {
	low := strings.ToLower(description)
	if code == apiAccountResources || code == apiResources || code == apiStorage ||
		strings.Contains(low, "no space left") || strings.Contains(low, "disk quota") {
		return fmt.Sprintf("the server's disk is full (%s): nothing is stored until there is room; lazaret doctor says how "+
			"much is free", description)
	}
	return description
}
