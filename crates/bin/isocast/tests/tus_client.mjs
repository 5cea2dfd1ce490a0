// Uploads a file by tus-js-client: broken off on the way, and continued by another process from the address that the first one kept.
//
//   node tus_client.mjs PACKAGES ENDPOINT FILE PATH STORE [STOP-AT]
//
// Prints the offset at which it began; ends with 3 once STOP-AT bytes are acknowledged.
import { createReadStream, statSync } from 'node:fs'
import { createRequire } from 'node:module'

const [packages, endpoint, file, path, store, stopAt] = process.argv.slice(2)
const { FileUrlStorage, Upload } = createRequire(`${packages}/`)('tus-js-client')
let began = null
const upload = new Upload(createReadStream(file), {
  endpoint,
  uploadSize: statSync(file).size,
  chunkSize: 512 * 1024,
  metadata: { path, mtime: '1600000000' },
  urlStorage: new FileUrlStorage(store),
  fingerprint: () => Promise.resolve(`test-${path}`),
  storeFingerprintForResuming: true,
  removeFingerprintOnSuccess: true,
  retryDelays: [100, 200, 400, 800, 1600],
  onChunkComplete(_, sent) {
    began ??= sent
    if (stopAt && sent >= Number(stopAt)) process.exit(3)
  },
  onSuccess() {
    console.log('done')
  },
  onError(error) {
    console.error(error.message)
    process.exit(1)
  },
})
const [previous] = await upload.findPreviousUploads()
console.log(previous ? 'continues' : 'begins')
if (previous) upload.resumeFromPreviousUpload(previous)
upload.start()
