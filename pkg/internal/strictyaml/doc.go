// Package strictyaml reads configuration that decides about trust: YAML with
// everything taken out that could make a reviewer and the program see
// different documents.
//
// It accepts one document of block and flow collections and scalars. Unknown
// and repeated keys, anchors, aliases, merge keys, tags, directives, complex
// keys, further documents, deep nesting and large files are errors. Each error
// names file, line and column and shows the line. No input makes it panic.
//
// It imports nothing of ours. Begin reading with strictyaml.go; place.go finds the place of an
// error.
package strictyaml
