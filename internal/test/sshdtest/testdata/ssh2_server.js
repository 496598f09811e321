// An SFTP server on the socket that is the standard input.
//
// It runs in the directory that it serves. Its keys are in the directory above.
'use strict';

const fs = require('fs');
const path = require('path');
const {Server, utils} = require('ssh2');

const {STATUS_CODE, OPEN_MODE} = utils.sftp;
const clientKey = utils.parseKey(fs.readFileSync('../authorized_keys'));

// status is what an error of the system is to a client.
function status(error) {
  if (!error) return STATUS_CODE.OK;
  if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return STATUS_CODE.NO_SUCH_FILE;
  if (error.code === 'EACCES' || error.code === 'EPERM') return STATUS_CODE.PERMISSION_DENIED;
  return STATUS_CODE.FAILURE;
}

function attributes(stats) {
  return {
    mode: stats.mode, uid: stats.uid, gid: stats.gid, size: stats.size,
    atime: Math.floor(stats.atimeMs / 1000), mtime: Math.floor(stats.mtimeMs / 1000),
  };
}

// change sets what a client has sent of a file's attributes.
function change(file, attrs) {
  if (attrs.size !== undefined) fs.truncateSync(file, attrs.size);
  if (attrs.mode !== undefined) fs.chmodSync(file, attrs.mode & 0o7777);
  if (attrs.mtime !== undefined) fs.utimesSync(file, attrs.atime, attrs.mtime);
}

function serve(sftp) {
  const handles = new Map(); // by number: {file, fd} of a file, {names} of a directory
  let last = 0;

  // on answers a request with what the function returns, or with a status.
  function on(name, operation) {
    sftp.on(name, (id, ...args) => {
      try {
        const answer = operation(...args);
        if (answer === undefined) sftp.status(id, STATUS_CODE.OK);
        else answer(id);
      } catch (error) {
        sftp.status(id, status(error));
      }
    });
  }
  function add(handle) {
    handles.set(++last, handle);
    const text = Buffer.alloc(4);
    text.writeUInt32BE(last);
    return (id) => sftp.handle(id, text);
  }
  const get = (text) => handles.get(text.readUInt32BE(0));
  const list = (name, stats) => ({filename: name, longname: name, attrs: attributes(stats)});

  on('REALPATH', (name) => (id) => sftp.name(id, [{filename: path.resolve(name), longname: '', attrs: {}}]));
  on('STAT', (name) => { const s = fs.statSync(name); return (id) => sftp.attrs(id, attributes(s)); });
  on('LSTAT', (name) => { const s = fs.lstatSync(name); return (id) => sftp.attrs(id, attributes(s)); });
  on('SETSTAT', change);
  on('REMOVE', (name) => fs.unlinkSync(name));
  on('RMDIR', (name) => fs.rmdirSync(name));
  on('MKDIR', (name) => fs.mkdirSync(name));
  on('RENAME', (from, to) => {
    if (fs.existsSync(to)) throw new Error('it exists');
    fs.renameSync(from, to);
  });
  on('OPEN', (file, flags) => {
    let how = flags & OPEN_MODE.WRITE ? fs.constants.O_WRONLY : fs.constants.O_RDONLY;
    if (flags & OPEN_MODE.READ && flags & OPEN_MODE.WRITE) how = fs.constants.O_RDWR;
    if (flags & OPEN_MODE.CREAT) how |= fs.constants.O_CREAT;
    if (flags & OPEN_MODE.TRUNC) how |= fs.constants.O_TRUNC;
    if (flags & OPEN_MODE.EXCL) how |= fs.constants.O_EXCL;
    return add({file: path.resolve(file), fd: fs.openSync(file, how, 0o644)});
  });
  on('FSTAT', (handle) => { const s = fs.fstatSync(get(handle).fd); return (id) => sftp.attrs(id, attributes(s)); });
  on('FSETSTAT', (handle, attrs) => change(get(handle).file, attrs));
  on('READ', (handle, offset, length) => {
    const data = Buffer.alloc(length);
    const n = fs.readSync(get(handle).fd, data, 0, length, offset);
    if (n === 0) return (id) => sftp.status(id, STATUS_CODE.EOF);
    return (id) => sftp.data(id, data.subarray(0, n));
  });
  on('WRITE', (handle, offset, data) => { fs.writeSync(get(handle).fd, data, 0, data.length, offset); });
  on('OPENDIR', (name) => add({names: fs.readdirSync(name).map((n) => list(n, fs.lstatSync(path.join(name, n))))}));
  on('READDIR', (handle) => {
    const names = get(handle).names.splice(0, 100);
    if (names.length === 0) return (id) => sftp.status(id, STATUS_CODE.EOF);
    return (id) => sftp.name(id, names);
  });
  on('CLOSE', (handle) => {
    const {fd} = get(handle);
    handles.delete(handle.readUInt32BE(0));
    if (fd !== undefined) fs.closeSync(fd);
  });
}

new Server({hostKeys: [fs.readFileSync('../host_key')]}, (client) => {
  client.on('error', () => {});
  client.on('authentication', (login) => {
    const same = login.method === 'publickey' && login.key.data.equals(clientKey.getPublicSSH());
    if (same && (!login.signature || clientKey.verify(login.blob, login.signature, login.hashAlgo))) login.accept();
    else login.reject(['publickey']);
  });
  client.on('ready', () => client.on('session', (accept) => accept().on('sftp', (begin) => serve(begin()))));
}).listen({fd: 0});
