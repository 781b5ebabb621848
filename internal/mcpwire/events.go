package mcpwire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

var errTooLarge = errors.New("a message is too large")

// event is a server-sent event.
type event struct{ name, id, data string }

// events calls f for each event of a stream. It stops when the stream ends or f returns false. It drops an event that
// is not complete at the end of the stream.
func events(body io.Reader, f func(event) bool) error {
	r := bufio.NewReaderSize(body, 64<<10)
	var e event
	var data bytes.Buffer
	for {
		line, large, err := readLine(r, MaxMessage)
		if large != nil || data.Len()+len(line) > MaxMessage {
			return errTooLarge
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if len(line) == 0 {
			e.data = string(bytes.TrimSuffix(data.Bytes(), []byte("\n")))
			if !f(e) {
				return nil
			}
			e.name, e.data = "", ""
			data.Reset()
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			e.name = string(value)
		case "id":
			e.id = string(value)
		case "data":
			data.Write(value)
			data.WriteByte('\n')
		}
	}
}
