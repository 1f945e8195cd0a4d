package media

import "strings"

// extensions are the media types of files and their extensions, the usual one first.
const extensions = `
text/markdown md markdown mdown mkd mkdn
text/plain txt text log
text/csv csv
text/tab-separated-values tsv tab
text/xml xml
text/html html htm
application/xhtml+xml xhtml xht
text/css css
text/javascript js mjs
application/json json
application/yaml yaml yml
application/toml toml
application/x-sh sh
text/calendar ics
text/vcard vcf
application/x-subrip srt
text/vtt vtt

application/pdf pdf
application/vnd.openxmlformats-officedocument.wordprocessingml.document docx
application/vnd.openxmlformats-officedocument.spreadsheetml.sheet xlsx
application/vnd.openxmlformats-officedocument.presentationml.presentation pptx
application/vnd.oasis.opendocument.text odt
application/vnd.oasis.opendocument.spreadsheet ods
application/epub+zip epub
application/java-archive jar
application/vnd.android.package-archive apk
application/x-7z-compressed 7z
application/x-tar tar
application/zstd zst
application/x-xz xz
application/x-bzip2 bz2
application/x-gzip gz
application/zip zip
application/x-iso9660-image iso
model/stl stl
model/3mf 3mf
application/wasm wasm
application/vnd.sqlite3 sqlite
multipart/related mht mhtml

image/jpeg jpg jpeg jpe jfif
image/png png
image/gif gif
image/webp webp
image/avif avif avifs
image/heic heic heics
image/heif heif heifs hif
image/avci avci
image/avcs avcs
image/bmp bmp dib
image/tiff tif tiff
image/tiff-fx tfx
image/svg+xml svg
image/x-icon ico cur
image/x-icns icns
image/jxl jxl
image/jxr jxr hdp wdp
image/jp2 jp2 jpg2
image/jpx jpx jpf
image/jpm jpm jpgm
image/j2c j2c j2k jpc
image/vnd.adobe.photoshop psd psb
image/x-xcf xcf
image/vnd.djvu djvu djv
image/vnd.ms-dds dds
image/vnd.ms-modi mdi
image/aces exr
image/qoi qoi
image/ktx ktx
image/ktx2 ktx2
image/wmf wmf
image/emf emf
image/x-jng jng
image/x-adobe-dng dng
image/x-canon-cr2 cr2
image/x-canon-cr3 cr3
image/x-canon-crw crw
image/x-nikon-nef nef nrw
image/x-sony-arw arw
image/x-sony-sr2 sr2 srf
image/x-olympus-orf orf
image/x-panasonic-rw2 rw2
image/x-pentax-pef pef
image/x-fuji-raf raf
image/x-sigma-x3f x3f
image/x-epson-erf erf
image/x-kodak-dcr dcr
image/x-kodak-k25 k25 kdc
image/x-samsung-srw srw
image/x-hasselblad-3fr 3fr fff
image/x-leica-rwl rwl
image/x-phaseone-iiq iiq

video/mp4 mp4 mpg4 m4v f4v mp4v
video/quicktime mov qt
video/webm webm
video/x-matroska mkv mk3d mks mpv
video/avi avi divx
video/mpeg mpg mpeg mpe m1v m2v mp2v vob mod tod
video/mp2t mts m2ts m2t ts trp tp
video/ogg ogv ogm ogx
video/3gpp 3gp 3gpp
video/3gpp2 3g2 3gp2
video/x-ms-wmv wmv wm
video/x-ms-asf asf dvr-ms
video/x-flv flv
video/mj2 mj2 mjp2
video/x-mng mng
video/x-ivf ivf
video/dv dv dif
video/iso.segment m4s
video/annodex axv
video/fli fli flc
video/gl gl
video/x-nsv nsv
video/x-sgi-movie movie
video/x-la-asf lsf lsx
video/x-ms-wmx wmx
video/x-ms-wvx wvx
video/vnd.radgamettools.bink bik bk2
video/vnd.radgamettools.smacker smk
video/vnd.dvb.file dvb
video/vnd.vivo viv
video/vnd.fvt fvt
video/vnd.mpegurl mxu m4u
video/vnd.nokia.interleaved-multimedia nim
video/vnd.ms-playready.media.pyv pyv
video/vnd.dece.hd uvh uvvh
video/vnd.dece.mobile uvm uvvm
video/vnd.dece.mp4 uvu uvvu
video/vnd.dece.pd uvp uvvp
video/vnd.dece.sd uvs uvvs
video/vnd.dece.video uvv uvvv
video/vnd.sealed.mpeg1 smpg s11
video/vnd.sealed.mpeg4 s14
video/vnd.sealed.swf sswf ssw
video/vnd.sealedmedia.softseal.mov smov smo s1q
video/vnd.youtube.yt yt
application/mxf mxf
application/vnd.rn-realmedia rm rmvb

audio/mpeg mp3 mp2 mp1 mpga mpega
audio/mp4 m4a m4b m4p m4r f4a f4b
audio/aac aac adts
audio/flac flac
audio/ogg ogg oga opus spx
audio/wave wav bwf
audio/webm weba
audio/x-matroska mka
audio/aiff aiff aif aifc
audio/x-ms-wma wma
audio/x-ms-wax wax
audio/midi mid midi kar rmi
audio/basic au snd
audio/amr amr
audio/amr-wb awb
audio/ac3 ac3
audio/eac3 eac3 ec3
audio/vnd.dts dts
audio/vnd.dts.hd dtshd
audio/x-caf caf
audio/x-ape ape
audio/x-wavpack wv
audio/x-musepack mpc
audio/x-tta tta
audio/x-dsf dsf
audio/x-dff dff
audio/x-xm xm
audio/x-it it
audio/x-s3m s3m
audio/prs.sid sid psid
audio/x-gsm gsm
audio/x-sd2 sd2
audio/32kadpcm 726
audio/annodex axa
audio/aptx aptx
audio/asc acn
audio/atrac-advanced-lossless aal
audio/atrac-x atx
audio/atrac3 at3 aa3 omg
audio/csound csd orc sco
audio/dls dls
audio/evrc evc
audio/evrc-qcp qcp
audio/evrcb evb
audio/evrcnw enw
audio/evrcwb evw
audio/ilbc lbc
audio/l16 l16
audio/mhas mhas
audio/mobile-xmf mxmf
audio/mpegurl m3u m3u8
audio/smv smv
audio/sofa sofa
audio/usac loas xhe
audio/x-pn-realaudio ra ram
audio/x-scpls pls
audio/vnd.audiokoz koz
audio/vnd.dece.audio uva uvva
audio/vnd.digital-winds eol
audio/vnd.dolby.mlp mlp
audio/vnd.everad.plj plj
audio/vnd.lucent.voice lvp
audio/vnd.ms-playready.media.pya pya
audio/vnd.nortel.vbk vbk
audio/vnd.nuera.ecelp4800 ecelp4800
audio/vnd.nuera.ecelp7470 ecelp7470
audio/vnd.nuera.ecelp9600 ecelp9600
audio/vnd.presonus.multitrack multitrack
audio/vnd.rip rip
audio/vnd.sealedmedia.softseal.mpeg smp3 smp s1m
`

// byExtension is the type of an extension, and usualExtension the other way round, with its dot.
var byExtension, usualExtension = func() (types, usual map[string]string) {
	types, usual = map[string]string{}, map[string]string{}
	for line := range strings.Lines(extensions) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		usual[words[0]] = "." + words[1]
		for _, ext := range words[1:] {
			types[ext] = words[0]
		}
	}
	return types, usual
}()

// aliases are the other names of types, in use by programs or by standards, each with the name that this package uses.
var aliases = func() map[string]string {
	names := map[string]string{}
	for line := range strings.Lines(sameTypes) {
		words := strings.Fields(line)
		for _, other := range words[min(1, len(words)):] {
			names[other] = words[0]
		}
	}
	return names
}()

// sameTypes has the names of one type in each line, the one that this package uses first.
const sameTypes = `
image/jpeg image/jpg image/pjpeg image/jpe image/x-jpeg
image/png image/x-png image/apng
image/bmp image/x-bmp image/x-ms-bmp image/x-windows-bmp
image/tiff image/x-tiff image/tif
image/svg+xml image/svg
image/webp image/x-webp
image/x-icon image/vnd.microsoft.icon image/ico image/icon
image/heic image/heic-sequence image/x-heic
image/heif image/heif-sequence image/x-heif
image/avif image/avif-sequence
image/vnd.adobe.photoshop image/psd image/x-psd image/photoshop image/x-photoshop application/x-photoshop
image/jxr image/vnd.ms-photo
image/wmf image/x-wmf application/x-msmetafile
image/emf image/x-emf
image/aces image/x-exr
image/vnd.ms-dds image/x-dds
image/vnd.djvu image/x-djvu image/x.djvu
image/x-adobe-dng image/dng
image/x-nikon-nef image/x-nef

video/mp4 video/x-m4v video/x-mp4 video/m4v
video/quicktime video/x-quicktime video/mov
video/webm video/x-webm
video/x-matroska video/matroska video/mkv video/x-mkv
video/avi video/x-msvideo video/msvideo video/vnd.avi video/x-avi
video/mpeg video/mpg video/x-mpeg video/mp2p video/x-mpeg2 video/mp1s
video/mp2t video/mpegts video/m2ts video/vnd.dlna.mpeg-tts video/x-mpegts
video/ogg video/x-ogg video/theora video/x-theora
video/3gpp video/3gp
video/3gpp2 video/3g2
video/x-ms-wmv video/wmv video/x-ms-wm
video/x-ms-asf video/asf application/vnd.ms-asf video/vnd.ms-asf
video/x-flv video/flv
video/dv video/x-dv
application/vnd.rn-realmedia application/vnd.rn-realmedia-vbr

audio/mpeg audio/mp3 audio/x-mp3 audio/x-mpeg audio/mpeg3 audio/x-mpeg-3 audio/mpg audio/mpa
audio/mp4 audio/x-m4a audio/m4a audio/x-m4b audio/m4b audio/mp4a-latm
audio/aac audio/x-aac audio/aacp audio/vnd.dlna.adts audio/x-hx-aac-adts
audio/flac audio/x-flac
audio/ogg audio/opus audio/vorbis audio/x-ogg audio/speex audio/x-vorbis+ogg audio/x-opus+ogg audio/x-speex+ogg
audio/wave audio/wav audio/x-wav audio/vnd.wave audio/x-pn-wav
audio/x-matroska audio/matroska
audio/aiff audio/x-aiff audio/aif
audio/x-ms-wma audio/wma
audio/midi audio/x-midi audio/mid audio/sp-midi
audio/basic audio/au audio/x-au
audio/x-ape audio/ape
audio/x-wavpack audio/wavpack
audio/x-caf audio/caf
audio/mpegurl audio/x-mpegurl application/vnd.apple.mpegurl application/x-mpegurl

text/xml application/xml
text/javascript application/javascript application/x-javascript application/ecmascript text/ecmascript
text/csv application/csv text/x-csv text/comma-separated-values
text/markdown text/x-markdown
application/json text/json
application/yaml application/x-yaml text/yaml text/x-yaml
application/toml text/toml text/x-toml
application/x-sh text/x-sh text/x-shellscript application/x-shellscript
text/vcard text/x-vcard
application/pdf application/x-pdf
application/zip application/x-zip application/x-zip-compressed
application/x-gzip application/gzip application/x-gunzip
application/x-rar-compressed application/vnd.rar application/x-rar application/rar
application/x-bzip2 application/x-bzip
application/x-7z-compressed application/7z
application/zstd application/x-zstd
model/stl application/sla model/x.stl-ascii model/x.stl-binary
`
