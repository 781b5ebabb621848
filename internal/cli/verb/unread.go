package verb

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxUnread is the maximum number of names that NoteUnread prints.
const maxUnread = 20

// NoteUnread says which members of JSON that a person wrote are not read, because a misspelled name would otherwise
// have no effect and no error. in names the JSON. It prints nothing if there are none.
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
