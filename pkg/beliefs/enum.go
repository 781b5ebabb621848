package beliefs

import (
	"fmt"
	"slices"
	"strings"
)

// enum is a set of values, each with a name. The first value is the zero value.
type enum struct {
	what  string
	names []string
}

func (e enum) name(i uint8) string {
	if int(i) < len(e.names) {
		return e.names[i]
	}
	return fmt.Sprintf("%s(%d)", e.what, i)
}

func (e enum) marshal(i uint8) ([]byte, error) {
	if int(i) >= len(e.names) {
		return nil, fmt.Errorf("%s %d does not exist", e.what, i)
	}
	return []byte(e.names[i]), nil
}

func (e enum) parse(s string) (uint8, error) {
	i := slices.Index(e.names, s)
	if i < 0 {
		known := slices.DeleteFunc(slices.Clone(e.names), func(s string) bool { return s == "" })
		return 0, fmt.Errorf("unknown %s %q: use one of %s", e.what, s, strings.Join(known, ", "))
	}
	return uint8(i), nil
}

// unmarshal sets v to the value with the given name.
func unmarshal[T ~uint8](e enum, name []byte, v *T) error {
	i, err := e.parse(string(name))
	if err == nil {
		*v = T(i)
	}
	return err
}
