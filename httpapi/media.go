package httpapi

// byExtension is the media type of files whose bytes do not tell.
var byExtension = map[string]string{
	".md": "text/markdown", ".markdown": "text/markdown", ".txt": "text/plain", ".log": "text/plain", ".csv": "text/csv",
	".tsv": "text/tab-separated-values", ".svg": "image/svg+xml", ".xml": "text/xml", ".html": "text/html", ".htm": "text/html",
	".xhtml": "application/xhtml+xml", ".css": "text/css", ".js": "text/javascript", ".mjs": "text/javascript",
	".json": "application/json", ".yaml": "application/yaml", ".yml": "application/yaml", ".toml": "application/toml",
	".sh": "application/x-sh", ".ics": "text/calendar", ".vcf": "text/vcard", ".srt": "application/x-subrip", ".vtt": "text/vtt",
	".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	".odt":  "application/vnd.oasis.opendocument.text", ".ods": "application/vnd.oasis.opendocument.spreadsheet",
	".epub": "application/epub+zip", ".jar": "application/java-archive", ".apk": "application/vnd.android.package-archive",
	".7z": "application/x-7z-compressed", ".tar": "application/x-tar", ".zst": "application/zstd", ".xz": "application/x-xz",
	".bz2": "application/x-bzip2", ".iso": "application/x-iso9660-image", ".mkv": "video/x-matroska", ".mov": "video/quicktime",
	".m4a": "audio/mp4", ".m4v": "video/mp4", ".mp4": "video/mp4", ".mp3": "audio/mpeg", ".flac": "audio/flac", ".opus": "audio/ogg", ".aac": "audio/aac",
	".avif": "image/avif", ".heic": "image/heic", ".heif": "image/heif", ".jxl": "image/jxl", ".tif": "image/tiff", ".tiff": "image/tiff",
	".psd": "image/vnd.adobe.photoshop", ".stl": "model/stl", ".3mf": "model/3mf", ".wasm": "application/wasm", ".sqlite": "application/vnd.sqlite3",
	".mht": "multipart/related", ".mhtml": "multipart/related",
}
