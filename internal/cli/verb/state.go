package verb

import (
	"os"
	"path/filepath"
)

// StateDir returns the folder in which commands on this machine store data for later runs. Its subfolders
// checkpoints and folders hold verified checkpoints: checkpoints has one for each origin and key of a log,
// folders has one for each log folder. memory-proxy holds the ids of held writes.
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
