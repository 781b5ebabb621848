//go:build !unix

package chaos

import "os"

// canPause reports whether processes can be stopped and resumed here.
const canPause = false

func pause(*os.Process)  {}
func resume(*os.Process) {}
