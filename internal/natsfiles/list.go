package natsfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"lazaret/streams"
)

// ReadList reads a list from a JSON file of a data folder. If the file does not exist, the list is
// empty. what names the list in errors.
func ReadList[T any](path, what string) (*T, error) {
	l := new(T)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = streams.Unmarshal(b, l)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the list of %s from %s: %w", what, path, err)
	}
	return l, nil
}
