package stage

import "github.com/cockroachdb/pebble/v2/vfs"

// SetFormat changes the format of a stored state.
func SetFormat(dir string, fs vfs.FS, format byte) error {
	s, err := openStore(dir, fs, nil)
	if err != nil {
		return err
	}
	if err := s.set(formatKey, []byte{format}); err != nil {
		return err
	}
	if err := s.commit(); err != nil {
		return err
	}
	return s.close()
}

// StateFormat is the current format.
const StateFormat = stateFormat
