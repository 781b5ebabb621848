package verb

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxUnread is the maximum number of names that NoteUnread prints.
const maxUnread = 20

// NoteUnread prints the names in JSON that a person wrote and that are not read. Without the note, a misspelled name
// would have no effect and cause no error. in says where the JSON is from. If there are no such names, NoteUnread
// prints nothing.
func NoteUnread(w io.Writer, in string, names []string) {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) == 0 {
		return
	}
	more := ""
	if n := len(names) - maxUnread; n > 0 {
		names, more = names[:maxUnread], fmt.Sprintf(" and %d more", n)
	}
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = Quote(name, 80)
	}
	fmt.Fprintf(w, "NOTE: %s: these names are not known and have no effect: %s%s; check their spelling\n", in,
		strings.Join(quoted, ", "), more)
}
