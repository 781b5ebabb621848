// Package memorytool executes the commands of Anthropic's memory tool (memory_20250818): view, create,
// str_replace, insert, delete and rename of files under /memories.
//
// A change is proposed as a memory write before it is made. The text of a file is judged before it is
// shown: refused text is not shown, and text that is context only is marked. The wording of results is
// that of https://platform.claude.com/docs/en/agents-and-tools/tool-use/memory-tool.
//
// Begin reading with tool.go.
package memorytool
