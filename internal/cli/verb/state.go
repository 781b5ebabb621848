package verb

import (
	"os"
	"path/filepath"
)

// StateDir returns the folder where this machine stores data of the commands that outlives them. checkpoints
// and folders hold the checkpoints that it verified: one per origin and key, and one per log folder.
// memory-proxy holds the ids of held writes.
func StateDir() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if state == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "lazaret"), nil
}
